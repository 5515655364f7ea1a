"""What a rerun would execute here, worked out before any of it is, so that a person can read it and decide.

A result is a stranger's document. Its contract says what is measured; nothing else in it says what is executed: no
interpreter, no variable that names code, no module out of its own folder, and no secret is sent because it asks for it.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from urllib.parse import urlsplit

from lynxbench.engines.callable import module_files
from lynxbench.engines.engine_registry import ENTRY_POINT_GROUP
from lynxbench.errors import BadResult, CannotRun, EvidenceInvalid, Refused
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.evidence.sample_file import hash_file
from lynxbench.executor.server_on_host import redact_command
from lynxbench.model.accuracy_asked import ScorerName
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract, PluginEngine
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.model.serving import ServedEngine
from lynxbench.model.surroundings import Surroundings, take_over
from lynxbench.model.verification import CheckOutcome, VerificationReport
from lynxbench.model.workload import CallableModel, ServedModel
from lynxbench.run.machine_servers import command_line, read_server, refuse_foreign_arguments

SOURCE_FIELD = "callable_source_sha256"
"""What an executor's application layer calls the hash of a function's file."""


@dataclass(frozen=True, slots=True)
class RerunPlan:
    """What is about to be executed, on whose word, and what of the original's surroundings is not taken over."""

    result: Result
    executes: str
    """The code or the server behind it."""
    around: Surroundings | None
    left_out: tuple[str, ...]
    registered: bool
    """Whether the original's surroundings are known: its registration is here."""
    report: VerificationReport
    """The original itself, computed again."""

    @property
    def contract(self) -> Contract:
        """What is measured."""
        return self.result.contract

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "result_id": self.result.result_id,
            "contract_id": self.result.contract_id,
            "executes": self.executes,
            "surroundings": None if self.around is None else self.around.model_dump(mode="json"),
            "left_out": list(self.left_out),
            "surroundings_known": self.registered,
            "original": self.report.verdict.value,
            "contract": self.contract.canonical(),
        }


def plan_rerun(
    result: Result,
    folder: Path,
    report: VerificationReport,
    environment: Mapping[str, str],
    python: Path | None = None,
    send_key: str | None = None,
) -> RerunPlan:
    """What executing a result's contract here comes to; Refused or CannotRun where its documents ask for too much.

    EvidenceInvalid where the original does not hold: nothing can reproduce a figure that its own samples refute.
    """
    registered = (folder / REGISTRATION_FILE).is_file()
    around = _surroundings(result, folder) if registered else None
    taken = take_over(around, environment, os.sched_getaffinity(0), None if python is None else _program(python))
    if around is not None and "interpreter" in taken.left_out:
        name = "another environment" if around.packages is None else f"the environment {around.packages.name}"
        raise CannotRun(
            f"{short(result.result_id)}: its processes ran in a Python of {name}; a Python that a document names is "
            "never started: name one of yours with --python, or run its experiment again"
        )
    executes = _executes(result, folder, send_key) + _asks(result, folder)
    wrong = next((check for check in report.checks if check.outcome is CheckOutcome.DOES_NOT_HOLD), None)
    if wrong is not None:
        raise EvidenceInvalid(f"{short(result.result_id)} does not hold ({wrong.line}); nothing is executed")
    return RerunPlan(result, executes, taken.around, taken.left_out, registered, report)


def _surroundings(result: Result, folder: Path) -> Surroundings | None:
    registration = RunFolder.open(folder).registration
    if (result.run_id, result.contract_id) != (registration.run_id, registration.contract.contract_id):
        raise BadResult(f"{folder}: result and {REGISTRATION_FILE} are of two different runs; nothing is executed")
    return registration.surroundings


def _program(python: Path) -> str:
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise CannotRun(f"--python {python}: no program there; name the Python of an environment that has lynxbench")
    return str(python.absolute())


def _executes(result: Result, folder: Path, send_key: str | None) -> str:
    engine, model = result.contract.engine, result.contract.workload.model
    if isinstance(engine, ServedEngine):
        assert isinstance(model, ServedModel)
        return _served(engine, model.name, send_key)
    if isinstance(engine, PluginEngine):
        entries = entry_points(group=ENTRY_POINT_GROUP, name=engine.plugin)
        known = [f"{entry.value} of {'?' if entry.dist is None else entry.dist.name}" for entry in entries]
        return f"engine plugin {engine.plugin}: {' or '.join(known) or 'no installed package has it'}"
    if isinstance(model, CallableModel):
        return _callable(model.target, result, folder)
    weights = ", ".join(f"{key} {value}" for key, value in model.model_dump(mode="json").items() if value is not None)
    return f"engine {engine.name} of lynxbench, model: {weights}"


def _asks(result: Result, folder: Path) -> str:
    """The file of labelled prompts that it would read and send, and the function that would score them."""
    asked = result.contract.accuracy
    if asked is None or asked.task is None:
        return ""
    own = "" if asked.task.scorer in set(ScorerName) else f", scored by {_callable(asked.task.scorer, result, folder)}"
    return f"; asks the labelled prompts of {asked.task.file}{own}"


def _callable(target: str, result: Result, folder: Path) -> str:
    """The function of a contract and the file it is in here; Refused where that file came with the result."""
    top = target.partition(":")[0].partition(".")[0]
    if top in (*sys.stdlib_module_names, "__main__"):
        raise Refused(f"{target}: a function of Python's own library is no workload; its contract is not executed")
    inside = folder.resolve()
    if Path.cwd().resolve().is_relative_to(inside):
        raise Refused(
            f"{folder}: modules are looked for in the current folder, and this one came with the result; "
            "go to a folder of your own"
        )
    files = module_files(target)
    if not files:
        raise CannotRun(f"{target}: no module {top!r} in the current directory or among the installed packages")
    if any(file.is_relative_to(inside) for file in files):
        raise Refused(f"{target}: its code lies in {folder}, beside the result; code of a result is not executed")
    field = result.executor.layers.get(Layer.APPLICATION, {}).get(SOURCE_FIELD)
    same = field is not None and field.value == hash_file(files[-1])
    return f"{target} from {files[-1]}, {'the same file as' if same else 'another file than'} the original's"


def _served(engine: ServedEngine, model: str, send_key: str | None) -> str:
    """The server that is asked; Refused where it would be sent a variable that nobody here named."""
    key = engine.api_key_env
    if key is not None and key != send_key:
        raise Refused(
            f"its contract sends the value of your ${key} to {engine.url}; if that is meant, say --send-key {key}"
        )
    sent = "no key" if key is None else f"the value of ${key}"
    asks = f"asks {engine.url} for model {model}, and sends {sent}"
    if engine.node is not None:
        asks += f", and reads {', '.join(filter(None, (*engine.node.exporters, engine.node.prometheus)))}"
    if engine.serve is None:
        return asks
    server = read_server(engine.serve.server)
    refuse_foreign_arguments(server, engine.serve)
    words = redact_command(command_line(server, engine.serve, urlsplit(engine.url).port or 0))
    return f"starts your server {engine.serve.server} ({' '.join(words)}), and {asks}"


def render_plan(plan: RerunPlan) -> str:
    """For people, before they decide. Texts of the document are written out, so that none can pass for ours."""
    contract = plan.contract
    protocol, precisions = contract.protocol, contract.workload.precisions
    processes = protocol.restarts * len(precisions)
    lines = [f"rerun of {short(plan.result.result_id)} would execute, as you, on this machine:"]
    lines.append(f"  {_quoted(plan.executes)}")
    longest_s = protocol.duration_s or protocol.limit_s
    lines.append(f"  {processes} processes one after the other, each measuring {longest_s:g} s at most")
    if plan.around is None:
        lines.append("with your own surroundings alone")
    else:
        lines.append("with these surroundings beside your own:")
        lines += [f"  {name}={_quoted(value)}" for name, value in plan.around.environment.items()]
        lines += [f"  CPUs {', '.join(map(str, plan.around.cpus))}"] if plan.around.cpus else []
        lines += [f"  Python {_quoted(plan.around.interpreter)}, which you named"] if plan.around.interpreter else []
    if plan.left_out:
        names = ", ".join(plan.left_out)
        lines.append(f"left out: {names} (a document may not set them here; set them yourself where you mean them)")
    if not plan.registered:
        lines.append(f"what surrounded the original is not known: {REGISTRATION_FILE} is not here")
    held = "holds, computed again from its samples" if plan.report.holds else plan.report.verdict.value
    lines.append(f"the original {held}")
    lines.append(f"contract {short(plan.result.contract_id)}:")
    lines += [f"  {line}" for line in json.dumps(contract.canonical(), indent=1, ensure_ascii=True).splitlines()]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Plain ASCII as it is; anything that could move a cursor or look like another letter, escaped."""
    return json.dumps(text, ensure_ascii=True)[1:-1]
