"""One way onto the terminal, and nothing that came from elsewhere drives it: hostile documents through every face."""

from __future__ import annotations

import ast
import io
import json
import os
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandRun, lynxbench_here
from compared import make_contract, make_executor, make_result
from lynxbench.cli.terminal import as_lines, coloured, say, tell
from lynxbench.evidence.documents import write_result
from lynxbench.https import HttpAnswer
from lynxbench.model.entries import ResultContested, ResultRetracted
from lynxbench.model.result import Result
from lynxbench.record.recording import seal
from lynxbench.visible import UNSAFE
from lynxbench.watch.json_log import make_log
from recording_teams import Team, make_team, record

SOURCE = Path(__file__).parents[3] / "src" / "lynxbench"
ELSEWHERE = {
    "cli/terminal.py": "the seam itself",
    "contract/contract_reference.py": "writes the reference page of our own keys for `make docs`",
    "load/processes.py": "a client process, which talks to its parent through a pipe",
    "load/truth_process.py": "a demo server, which says where it listens",
    "run/worker.py": "a measured process, whose standard error is a file",
}
HOSTILE = (
    "\x1b[2J\x1b[H\x9b31m\r\x08\x07\x7f\u202eevil\u2066\u200b\u2060\ufeff\u2028\u2029\x1b]0;t\x1b\\ \x85 RESULT HOLDS"
)

QUIET = "\u202eevil\u2066\u200b\u2060\ufeff\u2028\u2029\n RESULT HOLDS"
"""What a contract may hold: it takes no control characters."""


PAST = {"print", "typer.echo", "typer.secho", "click.echo", "rich.print", "pprint", "warnings.warn"} | {
    f"sys.{stream}.{way}" for stream in ("stdout", "stderr") for way in ("write", "buffer.write")
}
LAST = {name.rpartition(".")[2] for name in PAST}
"""What such a call ends in: only those few are written out whole."""


def direct_output(path: Path) -> list[str]:
    """Every call that writes to standard output or error without going through the seam."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        last = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        if last in LAST and (name := ast.unparse(node.func)) in PAST:
            found.append(f"{path.name}:{node.lineno} {name}")
    return found


def test_nothing_is_printed_past_the_seam() -> None:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    assert ELSEWHERE.keys() <= files.keys()
    assert len(files) > 200
    past = [line for name, path in files.items() if name not in ELSEWHERE for line in direct_output(path)]
    assert past == []


def test_the_walk_sees_what_it_looks_for(tmp_path: Path) -> None:
    assert len(direct_output(SOURCE / "cli" / "terminal.py")) == 4
    planted = tmp_path / "planted.py"
    planted.write_text(
        "".join(f"{name}('x')\n" for name in sorted(PAST)) + "file.write('x')\nmade().print(3)\nf()(1)\n"
    )
    assert [line.split()[1] for line in direct_output(planted)] == sorted(PAST)
    assert len(PAST) == 11


def test_our_colours_pass_and_nobody_elses_do(capsys: pytest.CaptureFixture[str]) -> None:
    say(coloured("\x1b[1;31mvoid\x1b[0m") + " by \x1b[32mvalid\x1b[0m")
    assert capsys.readouterr().out == "\x1b[1;31mvoid\x1b[0m by \\x1b[32mvalid\\x1b[0m\n"
    tell("a\nlynxbench: holds\x1b[2J")
    assert capsys.readouterr().err == "a\\nlynxbench: holds\\x1b[2J\n"
    tell("3 MB", over=True)
    assert capsys.readouterr().err == "\r3 MB"
    assert as_lines(["a\nb", "c"]) == "a\\nb\nc\n"


def test_a_log_line_is_one_line_of_json_whatever_it_says() -> None:
    stream = io.StringIO()
    make_log("test", stream).info(HOSTILE, extra={"server": HOSTILE})
    assert UNSAFE.search(stream.getvalue()) is None
    assert json.loads(stream.getvalue())["event"] == HOSTILE
    assert stream.getvalue().count("\n") == 1


# --- hostile documents through the commands ---------------------------------------------------------------------------


@dataclass
class Hostile:
    """A folder with hostile documents, and a team whose ledger holds a hostile result."""

    team: Team
    where: Path
    results: list[Result]

    def run(self, *arguments: str) -> CommandRun:
        done = lynxbench_here(*arguments, cwd=self.where, **self.team.environment)
        text = done.out + done.err
        found = UNSAFE.search(text)
        assert found is None, f"{arguments}: {text[max(0, found.start() - 60) : found.end() + 20]!r}"
        text.encode("utf-8")
        assert "Traceback" not in text
        assert not any(line.startswith(" RESULT HOLDS") for line in text.splitlines())
        return done


def hostile_result(number: int) -> Result:
    contract = make_contract(question=QUIET, owners={"framework": QUIET})
    executor = make_executor(
        {"framework.torch": f"{HOSTILE}{number}", f"system.{HOSTILE}": HOSTILE, "accelerator.cpu_model": HOSTILE}
    )
    result = make_result(contract=contract, executor=executor)
    validity = result.validity.model_copy(update={"reasons": (HOSTILE,)})
    return result.model_copy(
        update={"run_id": f"run-{number}", "assumptions": (HOSTILE,), "validity": validity}
    ).sealed()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    where = tmp_path_factory.mktemp("hostile")
    team = make_team("alpha", where)
    with team.open() as ledger:
        results = [record(ledger, hostile_result(number), team.key) for number in range(3)]
        ledger.log.append(seal(ResultContested(result_id=results[0].result_id, reason=HOSTILE), team.key))
        ledger.log.append(seal(ResultRetracted(result_id=results[2].result_id, reason=HOSTILE), team.key))
    for number, result in enumerate(results):
        write_result(where / f"{number}.json", result)
    return Hostile(team, where, results)


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize(
    "command",
    [
        ("results", "list"),
        ("results", "show", "{0}"),
        ("results", "log"),
        ("compare", "0.json", "1.json"),
        ("compare", "{0}", "{1}"),
        ("history", "{contract}"),
        ("signals", "{contract}"),
        ("executor", "diff", "0.json", "1.json"),
        ("report", "0.json"),
        ("verify", "{0}"),
        ("verify", "0.json"),
        ("decide", "precision", "0.json"),
        ("decide", "purchase", "0.json", "--proposed", HOSTILE),
        ("contract", "show", "0.json"),
        ("contract", "diff", "0.json", "quickstart"),
        ("contract", "check", f"{HOSTILE}.yaml"),
        ("claim", "--text", HOSTILE),
        ("results", "show", HOSTILE),
        ("verify", HOSTILE),
        (HOSTILE,),
        ("results", "list", "--contract", HOSTILE),
        ("contest", "{1}", "--reason", HOSTILE),
        ("change", "declare", "quickstart", "--layer", "framework", "--owner", HOSTILE, "--what", HOSTILE),
    ],
    ids=lambda words: "-".join(word for word in words if word.isascii() and word.isprintable()),
)
def test_hostile_documents_through_the_commands(hostile: Hostile, command: tuple[str, ...], form: tuple[str]) -> None:
    places = {str(place): result.result_id[:12] for place, result in enumerate(hostile.results)}
    places["contract"] = hostile.results[0].contract_id[:12]
    words = [places.get(word.strip("{}"), word) if word.startswith("{") else word for word in command]
    hostile.run(*words, *form)


@pytest.mark.parametrize("form", ["terminal", "md", "json"])
def test_a_report_in_every_form(hostile: Hostile, form: str) -> None:
    hostile.run("report", "0.json", "--format", form)


def test_a_contract_file_whose_text_and_name_are_hostile(hostile: Hostile) -> None:
    text = Path(hostile.where / "c.yaml")
    quoted = json.dumps(HOSTILE)
    text.write_text(f"lynxbench: 1\nname: {quoted}\nquestion: {quoted}\n{quoted}: 1\n", encoding="utf-8")
    named = hostile.where / "\x1b[2J\u202e.yaml"
    named.write_text(text.read_text(encoding="utf-8"), encoding="utf-8")
    for file in (text.name, named.name):
        for verb in ("show", "check"):
            assert hostile.run("contract", verb, file).code == 2


def test_a_file_name_that_is_not_utf8(hostile: Hostile) -> None:
    raw = os.fsencode(hostile.where) + b"/\xff\x9b.json"
    Path(os.fsdecode(raw)).write_text("{}")
    for words in (("verify",), ("contract", "show"), ("results", "import"), ("steady",), ("trace",)):
        assert hostile.run(*words, os.fsdecode(raw)).code != 0


@pytest.mark.parametrize("command", ["steady", "changepoints"])
def test_a_series_whose_columns_and_groups_are_hostile(hostile: Hostile, command: str) -> None:
    rows = [{"rate": 100.0 + number % 7, f"g{HOSTILE}": f"{HOSTILE}\n{number % 2}"} for number in range(80)]
    (hostile.where / "series.json").write_text(json.dumps(rows))
    hostile.run(command, "series.json")
    rows = [{HOSTILE: 100.0 + number % 7} for number in range(80)]
    (hostile.where / "series.json").write_text(json.dumps(rows))
    hostile.run(command, "series.json")
    hostile.run(command, "series.json", "--json")


def test_a_trace_whose_kernels_are_hostile(hostile: Hostile) -> None:
    events: list[dict[str, Any]] = []
    for step in range(6):
        at = step * 1000
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
                       "ts": at, "dur": 900})  # fmt: skip
        events.append({"ph": "X", "cat": "cpu_op", "name": HOSTILE, "pid": 1, "tid": 1, "ts": at + 10, "dur": 700})
        events.append({"ph": "X", "cat": "kernel", "name": HOSTILE, "pid": 0, "tid": 7, "ts": at + 20, "dur": 600})
    (hostile.where / "trace.json").write_text(json.dumps({"traceEvents": events, "device": HOSTILE}))
    hostile.run("trace", "trace.json")
    hostile.run("trace", "trace.json", "--json")


def test_a_foreign_result_whose_words_are_hostile(hostile: Hostile) -> None:
    foreign = json.loads((Path(__file__).parents[2] / "data" / "foreign" / "vllm.json").read_text())
    foreign = {key: HOSTILE if isinstance(value, str) else value for key, value in foreign.items()}
    (hostile.where / "foreign.json").write_text(json.dumps(foreign))
    hostile.run("results", "import", "foreign.json", "--tool", "vllm")
    hostile.run("results", "foreign")
    hostile.run("claim", "foreign.json")


def test_what_a_server_says_drives_nothing(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    book = {
        "schedules": [
            {"name": HOSTILE, "timetable": HOSTILE, "contract_id": HOSTILE, "agents": [HOSTILE], "team": HOSTILE,
             "paused_at": None}
        ],
        "agents": [{"name": HOSTILE, "last_seen_at": HOSTILE}],
        "runs": [
            {"due_at": HOSTILE, "schedule": HOSTILE, "agent": HOSTILE, "state": HOSTILE, "result_id": HOSTILE,
             "said": HOSTILE}
        ],
    }  # fmt: skip
    answers: list[tuple[int, object]] = [
        (200, book),
        (200, {}),
        (200, [HOSTILE]),
        (200, {"schedules": 1, "agents": None, "runs": {}}),
        (500, {"error": {"message": HOSTILE}}),
        (409, {"error": {"message": HOSTILE}}),
        (422, {"error": {"message": f"signature {HOSTILE}"}}),
    ]
    monkeypatch.setattr("lynxbench.record.remote.time.sleep", lambda seconds: None)
    for status, document in answers:
        body = json.dumps(document).encode() if document != [HOSTILE] else HOSTILE.encode()
        answer = HttpAnswer(status, Message(), body)
        monkeypatch.setattr("lynxbench.record.remote.request", lambda *_, answer=answer, **__: answer)
        hostile.run("schedule", "list", "--server", "http://localhost:1")
        hostile.run("schedule", "add", "x", "quickstart", "--every", "1 h", "--server", "http://localhost:1")
        hostile.run("push", hostile.results[0].result_id[:12], "--server", "http://localhost:1")
        hostile.run("pull", hostile.results[0].result_id[:12], "--server", "http://localhost:1")
