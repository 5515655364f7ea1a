"""The public Python surface: small, typed, versioned. It calls the rooms that the command line calls.

What goes wrong is a `LynxbenchError`: one line that says what, where and what to do, and `exit_code`, the code that the
command line would end with. A verdict is never an exception: a void run, a refused or an unproven comparison are
answers, and say so.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

from lynxbench.attribute.attributing import TraceSettings
from lynxbench.attribute.judge.roofline import DEVICES, ceilings_of
from lynxbench.attribute.rank_traces import analyse_ranks, find_traces
from lynxbench.contract.loader import CONTRACT, read_contract
from lynxbench.errors import BadInput
from lynxbench.errors import LynxbenchError as LynxbenchError
from lynxbench.evidence.keyring import Keyring
from lynxbench.executor.declaration import Declaration, read_declaration
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.ledger.names import find_id, machine_letters
from lynxbench.ledger.queries import Wanted, list_results, open_runs
from lynxbench.ledger.remarks import remarks_of
from lynxbench.ledger.result_standings import standings
from lynxbench.model.contract import CallableEngine, Contract
from lynxbench.model.file_nodes import nodes_from_json
from lynxbench.model.interventions import InterventionChoice, parse_intervention
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result
from lynxbench.model.strict_file import validate
from lynxbench.model.workload import Task
from lynxbench.public_values import AttributedTrace as AttributedTrace
from lynxbench.public_values import ComparedResults as ComparedResults
from lynxbench.public_values import Measurement as Measurement
from lynxbench.public_values import Shown
from lynxbench.public_values import SteadyState as SteadyState
from lynxbench.public_values import Stopwatch as Stopwatch
from lynxbench.record.baselines import accept_baseline, baseline_of
from lynxbench.record.comparing_results import compare_named
from lynxbench.record.exporting import Standings, arrow_table, data_frame
from lynxbench.record.listing import list_document
from lynxbench.record.recalling import recalled, result_document, standing_if_known
from lynxbench.record.recording import recorder_at
from lynxbench.record.run_reports import agreement_words, write_reports
from lynxbench.report.doc import Report
from lynxbench.report.documents.ledger_documents import compose_list
from lynxbench.report.documents.trace_view import view_of
from lynxbench.run.greeting import greet
from lynxbench.run.own_function import TERMS, FunctionTerms, function_contract, importable, target_of
from lynxbench.run.pipeline import run_contract
from lynxbench.run.quick_target import find_target, is_trace, quick_contract, quick_limits
from lynxbench.run.run_outcome import LineProgress

PLAIN_WIDTH = 120
FRAME_HEIGHT_PX = 640

Function = TypeVar("Function", bound=Callable[..., object])
Word = TypeVar("Word", bound=StrEnum)


class ResultLedger(Shown):
    """A ledger, named as `--ledger` names one; None is the environment's or this person's own."""

    def __init__(self, location: str | None = None) -> None:
        self.location = location

    def results(self, contract: str | None = None, *, limit: int = 20) -> list[dict[str, Any]]:
        """Results, newest first, as `results list --json` has them; of one contract by its id, beginning or name."""
        with self._open() as ledger:
            listed = list_results(ledger.log, _wanted(ledger, contract, limit))
            names, trust = [each.result_id for each in listed], Keyring().trust
            known, said = standings(ledger.log, names, trust), remarks_of(ledger.log, names, trust)
            document = list_document(listed, known, (), ledger.log.head(), machine_letters(ledger.log), said)
        return cast(list[dict[str, Any]], document["results"])

    def load(self, result: str) -> Measurement:
        """A result by its id, its unique beginning or its name (`last`, `last~1`, NAME, NAME@a)."""
        return load(result, ledger=self.location)

    def to_arrow(self, contract: str | None = None, *, limit: int = 20) -> Any:
        """A `pyarrow.Table`: a row for each measured precision of each result, with context and standing."""
        return arrow_table(*self._documents(contract, limit))

    def to_pandas(self, contract: str | None = None, *, limit: int = 20) -> Any:
        """The same rows as a `pandas.DataFrame`."""
        return data_frame(*self._documents(contract, limit))

    def baseline(self, measurement: Measurement) -> Measurement | None:
        """What results of its contract on its machine are held against: the one that was accepted last, or the first.

        Only sound ones count; None where there is none before it.
        """
        with self._open() as ledger:
            name = baseline_of(ledger, measurement.result, Keyring().trust)
        return None if name is None else self.load(name)

    def accept(self, measurement: Measurement, *, why: str = "accepted") -> None:
        """Decide, signed, that later results are held against this one; Refused where it is doubtful."""
        key = Keyring().signing_key(datetime.now(UTC)).key
        with self._open() as ledger:
            accept_baseline(ledger, measurement.result, key, why)
            ledger.seen.check(ledger.log)

    def _open(self) -> OpenLedger:
        return opened(self.location, os.environ)

    def _documents(self, contract: str | None, limit: int) -> tuple[list[Result], Standings]:
        with self._open() as ledger:
            names = [listed.result_id for listed in list_results(ledger.log, _wanted(ledger, contract, limit))]
            known = standings(ledger.log, names, Keyring().trust)
            return [result_document(ledger, name) for name in names], {name: known[name].short for name in names}

    def _report(self, *, plots: bool) -> Report:
        with self._open() as ledger:
            listed = list_results(ledger.log, Wanted())
            known = standings(ledger.log, [each.result_id for each in listed], Keyring().trust)
            return compose_list(listed, known, open_runs(ledger.log), machine_letters(ledger.log))

    def __repr__(self) -> str:
        return f"<Ledger {self.location or 'of this person'}>"


Ledger = ResultLedger
"""Its public name; the log itself has it inside the ledger's room."""


def run(
    contract: str | Path | Mapping[str, Any] | Contract | Callable[..., object],
    *,
    out: str | Path = "results",
    ledger: str | None = None,
    declare: str | Path | None = None,
    intervene: str | None = None,
    resume: bool = False,
    progress: Callable[[str], object] | None = None,
) -> Measurement:
    """Capture, measure in fresh processes, attribute, record and report, as `lynxbench run` does.

    `contract` is a file, a bundled name, a mapping of a contract's keys, or a function at the top of a module
    (`benchmark` says how it is measured). `ledger="none"` records nowhere; `progress=print` prints a line a process.
    """
    agreed = _agreed(contract)
    return _measure(
        agreed,
        Path(out),
        ledger,
        progress,
        declaration=None if declare is None else read_declaration(Path(declare)),
        scope=None if intervene is None else parse_intervention(intervene),
        resume=resume,
    )


def quick(
    target: str | Callable[..., object],
    *,
    task: str | None = None,
    model: str = "",
    api_key_env: str | None = None,
    out: str | Path = "results",
    ledger: str | None = None,
    progress: Callable[[str], object] | None = None,
) -> Measurement:
    """A look of two minutes at a server, a model, a file or a function, as `lynxbench quick` takes it.

    What was guessed, and what so short a look cannot show, is in `notes`.
    """
    named = target_of(target) if callable(target) else target
    if is_trace(named):
        raise BadInput(f"{named}: a trace is not measured but attributed: lynxbench.attribute({named!r})")
    chosen = None if task is None else _one_of(Task, task)
    found = find_target(named, task=chosen, model=model, key_variable=api_key_env)
    agreed = quick_contract(found)
    notes = (*(f"guessed: {guess}" for guess in found.guesses), quick_limits(agreed))
    return _measure(agreed, Path(out), ledger, progress, notes=notes)


def load(result: str | Path, *, ledger: str | None = None) -> Measurement:
    """A result again: by path, or from the ledger by id, unique beginning or name."""
    with recalled(str(result), ledger, os.environ) as recall:
        is_path = Path(result).exists()
        return Measurement(recall.result, recall.folder if is_path else None, recall.standing, ledger)


def compare(
    a: Measurement | str | Path,
    b: Measurement | str | Path,
    *,
    precision: str | None = None,
    ledger: str | None = None,
) -> ComparedResults:
    """B held against A, as `lynxbench compare` does; both are measurements, or named as `load` names them."""
    sides = [side for side in (a, b) if isinstance(side, Measurement)]
    where = ledger or next((side.ledger for side in sides if side.ledger is not None), None)
    names = [side.name if isinstance(side, Measurement) else str(side) for side in (a, b)]
    chosen = None if precision is None else _one_of(Precision, precision)
    return ComparedResults(compare_named(names[0], names[1], chosen, where, os.environ))


def attribute(
    *traces: str | Path,
    owners: str | Path | None = None,
    device: str | None = None,
    ceilings: Measurement | None = None,
    precision: str | None = None,
    step_ms: float | None = None,
) -> AttributedTrace:
    """Where the time of a step goes, by a profiler's trace, as `lynxbench trace` says it; several are a rank each.

    `owners` is a contract that names them; `ceilings` a measurement on the same device, `device` declared ones.
    """
    if not traces:
        raise BadInput("no trace is given; name a file that a profiler wrote, or a folder of them")
    if ceilings is not None and device is not None:
        raise BadInput("ceilings and device exclude each other: measured figures, or declared ones")
    declared = () if device is None else ceilings_of(device)
    if declared is None:
        raise BadInput(f"device {device!r} is not in the table ({', '.join(DEVICES)}); measure it and give ceilings")
    if step_ms is not None and not 0 < step_ms < float("inf"):
        raise BadInput(f"step_ms {step_ms} is not a step time; give milliseconds above 0")
    settings = TraceSettings(
        ceilings=declared if ceilings is None else ceilings.result.ceilings,
        precision=None if precision is None else _one_of(Precision, precision),
        step_ms=step_ms,
        owners=None if owners is None else read_contract(owners).owners,
    )
    ranks = analyse_ranks(find_traces([Path(trace) for trace in traces]), settings)
    return AttributedTrace(view_of(ranks), ranks)


def benchmark(
    *,
    unit: str | None = None,
    setup: Callable[..., object] | None = None,
    outputs: Callable[[], object] | None = None,
    close: Callable[[], object] | None = None,
    **terms: Unpack[FunctionTerms],
) -> Callable[[Function], Function]:
    """Decorate a function with how it is measured: `lynxbench.run(function)` then does so. It stays the function it is.

    The first four are the engine's (docs/how-to/measure-your-own-function.md); the terms are a contract's keys, such as
    `restarts=5, min_duration="2 s", limit="10 s", budget="5 %"`.
    """
    parts = {"unit": unit, "setup": setup, "outputs": outputs, "close": close}
    given = {name: value for name, value in parts.items() if value is not None}

    def marked(function: Function) -> Function:
        here = sys._getframe(1).f_globals.get("__name__")
        if given and here != function.__module__:
            raise BadInput(
                f"{function.__module__}:{function.__qualname__}: decorate it where it is defined, not in {here}: "
                f"a fresh process imports it from there, and would not see {', '.join(given)}"
            )
        for name, value in (*given.items(), (TERMS, terms)):
            setattr(function, name, value)
        return function

    return marked


def _measure(
    agreed: Contract,
    out: Path,
    ledger: str | None,
    progress: Callable[[str], object] | None,
    *,
    declaration: Declaration | None = None,
    scope: InterventionChoice | None = None,
    resume: bool = False,
    notes: Sequence[str] = (),
) -> Measurement:
    lines = LineProgress(progress)
    greeting, recorder = None if resume else greet(agreed, lines.note), recorder_at(ledger, os.environ)
    with importable() if isinstance(agreed.engine, CallableEngine) else nullcontext():
        finished = run_contract(agreed, out, declaration, lines, scope, recorder, greeting, resume=resume)
    write_reports(finished, agreement_words(finished.result, recorder))
    said_of_it = list(notes)
    if recorder is not None and recorder.news is not None:
        said_of_it.append(recorder.news)
    if recorder is not None and recorder.problem is not None:
        said_of_it.append(f"not recorded: {recorder.problem}; the run is kept in {finished.folder}")
    standing = standing_if_known(finished.result.result_id, ledger, os.environ)
    return Measurement(finished.result, finished.folder, standing, ledger, tuple(said_of_it))


def _agreed(contract: str | Path | Mapping[str, Any] | Contract | Callable[..., object]) -> Contract:
    if isinstance(contract, Contract):
        return contract
    if isinstance(contract, Mapping):
        return validate(nodes_from_json(dict(contract), "contract"), "contract", CONTRACT)
    if callable(contract):
        return function_contract(target_of(contract), getattr(contract, TERMS, {}))
    return read_contract(contract)


def _one_of(kind: type[Word], text: str) -> Word:
    try:
        return kind(text)
    except ValueError:
        raise BadInput(f"{text!r}: none of {', '.join(kind)}") from None


def _wanted(ledger: OpenLedger, contract: str | None, limit: int) -> Wanted:
    if limit < 1:
        raise BadInput(f"limit {limit}: at least one result must be wanted")
    return Wanted(contract=find_id(ledger.log, contract, "contract") if contract else None, limit=limit)
