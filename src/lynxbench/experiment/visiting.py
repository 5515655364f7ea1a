"""One visit of one cell: a fresh process of its run, or a fresh server asked by a fresh client.

Used by experiments and by the tuner; both leave ordinary runs behind, registered before their first sample.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from lynxbench.errors import BadInput, BadResult, CannotRun
from lynxbench.evidence.documents import check_samples, read_result
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.sample_file import read_samples
from lynxbench.executor.declaration import Declaration
from lynxbench.experiment.cells import changed
from lynxbench.experiment.code_places import CodePlace
from lynxbench.experiment.definition import ServerCommand
from lynxbench.experiment.environments import MadeEnvironment, make_environment
from lynxbench.experiment.launched_server import command_of, served
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.responses import process_response, result_response
from lynxbench.model.contract import Contract
from lynxbench.model.fields import Scalar
from lynxbench.model.precision import reference_of
from lynxbench.model.result import Accuracy, ValidityVerdict
from lynxbench.model.serving import ServedEngine
from lynxbench.model.surroundings import Surroundings
from lynxbench.run.attempts import kept_attempts
from lynxbench.run.pipeline import begin_contract, end_contract, run_contract, take_restart
from lynxbench.run.run_outcome import Finished, Progress, Recorders
from lynxbench.run.worker import OUTPUTS_FILE, read_outputs

NO_SERVED_ACCURACY = "no accuracy measured for served cells"
"""A server's answers are timed and counted, not kept: what a setting does to them is not known here."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is run: a contract and what surrounds it."""

    contract: Contract
    environment: Mapping[str, str] = field(default_factory=dict)
    lock: str | None = None
    cpus: tuple[int, ...] | None = None
    server: ServerCommand | None = None
    server_values: Mapping[str, Scalar] = field(default_factory=dict)
    place: CodePlace | None = None
    """Whose code it is, where two commits are held against each other; None is the code that lies here."""

    def standing(self) -> AbstractContextManager[None]:
        """Its processes are started from here on as they are to be: in the folder of their code."""
        return nullcontext() if self.place is None else self.place.standing()


@dataclass(slots=True)
class Visits:
    """What all visits share: where runs go, who records them, and the environments that were made for them."""

    runs: Path
    environments: Path
    base: Path
    """The folder that lock files are named from."""
    declaration: Declaration | None
    recorders: Recorders
    inherits: bool = True
    _made: dict[str, MadeEnvironment | str] = field(default_factory=dict)
    _making: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, setting: Setting) -> RunFolder:
        """Register the run of an in-process setting; `take` and `end` go on with it."""
        around = self.surroundings(setting)
        return begin_contract(setting.contract, self.runs, self._declared(setting), self.recorders(), around)

    def end(self, run: RunFolder, progress: Progress, setting: Setting | None = None) -> Finished:
        """Conclude an in-process run."""
        return end_contract(run, self._declared(setting), progress, self.recorders())

    def abandon(self, run: RunFolder, reason: str) -> None:
        """Say in the ledger that a registered run has no result."""
        recorder = self.recorders()
        if recorder is not None:
            recorder.register(run)
            recorder.abandon(run, reason)

    def ask(self, setting: Setting, progress: Progress, log: Path) -> Finished:
        """Start the setting's server, where it has one, and run its contract against it once."""
        contract = changed(setting.contract, {}, restarts=1)
        around = self.surroundings(setting) if setting.server is None else None  # else its server has them
        with self.serving(setting, log):
            return run_contract(contract, self.runs, self.declaration, progress, None, self.recorders(), around=around)

    @contextmanager
    def serving(self, setting: Setting, log: Path) -> Iterator[None]:
        """The setting's server, where it has one, is up and can be asked."""
        if setting.server is None:
            yield
            return
        made = self._environment(setting.lock)
        command = command_of(setting.server, setting.server_values, None if made is None else str(made.interpreter))
        with served(setting.server, command, setting.environment, log):
            yield

    def surroundings(self, setting: Setting) -> Surroundings | None:
        """What the processes are given; None where they are given nothing special."""
        made = self._environment(setting.lock)
        if made is None and not setting.environment and setting.cpus is None:
            return None
        return Surroundings(
            environment=dict(setting.environment),
            interpreter=None if made is None else str(made.interpreter),
            packages=None if made is None else made.packages,
            cpus=setting.cpus,
        )

    def _declared(self, setting: Setting | None) -> Declaration | None:
        """What is declared of all of them, with the commit of a setting that has one."""
        place = None if setting is None else setting.place
        return self.declaration if place is None else place.declared(self.declaration)

    def _environment(self, lock: str | None) -> MadeEnvironment | None:
        """The environment of a lock file, made when it is first asked for; CannotRun says why it cannot be."""
        if lock is None:
            return None
        with self._making:
            if lock not in self._made:
                try:
                    self._made[lock] = make_environment(self.base / lock, self.environments, inherits=self.inherits)
                except CannotRun as error:
                    self._made[lock] = str(error)
        made = self._made[lock]
        if isinstance(made, str):
            raise CannotRun(made)
        return made


def take(run: RunFolder, restart: int, progress: Progress, beside: Callable[[], tuple[int, ...]] = tuple) -> str:
    """One repetition; empty, or why it gave nothing."""
    attempts = take_restart(run, restart, progress, beside)
    if any(attempt.done for attempt in attempts):
        return ""
    return next(attempt.why for attempt in attempts)


def run_responses(path: Path, response: str) -> dict[int, float]:
    """The response of every repetition of a finished run; none of a void one: its figures are nobody's."""
    result = read_result(path)
    if result.validity.verdict is ValidityVerdict.VOID:
        return {}
    if isinstance(result.contract.engine, ServedEngine) or result.contract.protocol.duration_s is not None:
        values = {0: result_response(result.per_precision[0], response)}
    else:
        restarts = {slot.index: slot.restart for slot in RunFolder.open(path).registration.plan}
        processes = read_samples(check_samples(result, path))
        values = {restarts[process.samples.process]: process_response(process, response) for process in processes}
    return {restart: value for restart, value in values.items() if math.isfinite(value) and value > 0}


def visit_response(path: Path, response: str) -> float | None:
    """The response of a finished run of one visit; None where it is void or has none."""
    return next(iter(run_responses(path, response).values()), None)


def hold_against(reference: Path, candidate: Path, contract: Contract) -> Accuracy | str:
    """What one run's answers lose against another's on the same inputs, by the contract's policy; or why not known."""
    if isinstance(contract.engine, ServedEngine):
        return NO_SERVED_ACCURACY
    expected, answered = (_outputs(folder) for folder in (reference, candidate))
    if expected is None or answered is None:
        return "no answers were kept"
    try:
        return compare_outputs(
            read_outputs(expected),
            read_outputs(answered),
            contract.policy.accuracy,
            reference_precision=reference_of(RunFolder.open(reference).registration.contract.workload.precisions),
        )
    except (BadResult, BadInput, ValueError) as error:
        return f"not compared: {error}"


def _outputs(folder: Path) -> Path | None:
    try:
        attempts = kept_attempts(RunFolder.open(folder))
    except BadInput:
        return None
    return next((a.folder / OUTPUTS_FILE for a in attempts if (a.folder / OUTPUTS_FILE).exists()), None)
