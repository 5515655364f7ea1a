"""Every command of every guide, carried out as it is written, in a fresh home; it ends as its page says.

Ids, addresses and folders that stand for the reader's own (`9c1e`, `RESULT`, `results/…`) are replaced by those of the
scene. A command ends with exit code 0 unless it is listed here with another one. What cannot be carried out here is
listed with the reason, and the real parser reads it all the same: no page names an option that is gone.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from guide_commands import GuideCommand, SimpleCommand, parse_only, parse_tool, read_commands, read_inline, take_apart
from guide_scenes import (
    OTHER,
    ROOT,
    Scene,
    changed_contract,
    declared_change,
    ended_experiment,
    imported_result,
    lost_key,
    made_token,
    misspelt,
    new_result,
    open_bench,
    scene_of,
    short_experiment,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_functions")]

PAGES = (*sorted((ROOT / "docs" / "how-to").glob("*.md")), ROOT / "docs" / "tutorial.md", ROOT / "README.md")
TWO_SERVERS = "needs two servers of one model; tests/e2e/test_served_accuracy.py does it with planted ones"
PROGRAMS = ("lynxbench", ".venv/bin/lynxbench")
TOOL = "tools/offline_node.py"
Place = tuple[str, str]
Value = TypeVar("Value")

ENDS: dict[Place, tuple[int, ...]] = {
    ("agree-on-a-contract.md", "lynxbench contract agreement chat.yaml"): (1,),  # while somebody is missing
    ("before-you-buy.md", "lynxbench verify decision.lynxpack"): (5,),  # the scene's figures are planted: found out
    ("compare-two-results.md", "lynxbench compare results/before results/after"): (0, 6),  # 6: unproven, where others
    ("compare-two-results.md", "lynxbench compare 9c1e 77ab --json"): (0, 6),  # kept the machine busy meanwhile
    ("compare-two-results.md", "lynxbench compare results/main results/branch"): (0, 6),
    # Nothing was changed; 0: no telling; 3: one was not steady, where others kept the machine busy.
    ("compare-two-results.md", "lynxbench change measure CHANGE BEFORE AFTER"): (0, 1, 3),
    ("contract-from-a-log.md", "lynxbench contract check chat.yaml --against-log next-week.jsonl"): (1,),  # differs
    ("declare-a-site.md", "lynxbench executor diff stored.json here --declare site.yaml"): (1,),  # differs
    ("reproduce-a-result.md", "lynxbench rerun published.lynx"): (3,),  # nobody can be asked
    ("run-an-experiment.md", "lynxbench experiment run mine.yaml --resume"): (2,),  # it did not stop on the way
    ("share-results.md", "lynxbench rerun 9c1e"): (3,),  # nobody can be asked
    ("write-a-contract.md", "lynxbench contract check chat.yaml"): (2,),  # a misspelt key
    ("write-a-contract.md", "lynxbench contract diff chat.yaml chat-new.yaml"): (3,),  # incomparable
    ("README.md", "lynxbench compare last~1 last"): (0, 6),
}
"""Commands that are meant to end otherwise than with 0, as the page or the table of exit codes says."""
CLAIMS = ("lynxbench claim ",)
"""Every claim on the pages leaves something unsaid: exit code 1."""

CLUSTER = "needs a Ray cluster that runs; tests/e2e/test_fleet.py starts small ones"
BUILD = "needs GitHub's issuer of tokens; tests/unit/evidence/test_id_tokens.py has one of its own"
DATABASE = "the page's database and object store are nobody's; tests/e2e/test_ledger.py has a real PostgreSQL"
PORT = "asks port 8000, which is not the tests' to take: test_quick.py asks another, first_hour.py --guides asks it"
NODE = "needs the GPU node, or what came back from it; tests/unit/tools/test_offline_node.py plays it"
TUNING = "two dozen processes: test_experiment.py tunes with fewer, benchmarks/first_hour.py --guides as written"
INSTALL = "installs into the checkout; its recipe is read by make -n"
COSIGN = "there is no cosign here, as the page says"

NOT_HERE: dict[Place, str] = {
    ("benchmark-in-pytest.md", "pytest"): "suites are run in tests/unit/test_pytest_plugin.py",
    ("check-a-branch.md", "lynxbench ci"): "minutes of pairs: tests/e2e/test_ci.py measures some",
    ("check-a-branch.md", "lynxbench bisect"): "minutes of pairs: tests/unit/watch/test_bisecting.py plants them",
    ("compare-two-results.md", "lynxbench compare --run"): "minutes of pairs: tests/e2e/test_compare.py measures some",
    ("compare-two-results.md", "case"): "the shell's part of a pipeline",
    ("fleet.md", "lynxbench fleet run"): CLUSTER,
    ("fleet.md", "lynxbench fleet show results/fleet-quickstart-…"): CLUSTER,
    ("fleet.md", "lynxbench fleet load"): CLUSTER,
    ("fleet.md", "lynxbench fleet trace"): CLUSTER,
    ("fleet.md", "lynxbench experiment run"): CLUSTER,
    ("fleet.md", "lynxbench schedule agent"): CLUSTER,
    ("fleet.md", "CONTRACT="): "needs Slurm",
    ("fleet.md", "kubectl"): "needs Kubernetes",
    ("import-foreign-results.md", "lynxbench results export 9c1e --format mlflow"): "needs an MLflow server",
    (
        "import-foreign-results.md",
        "lynxbench results export 9c1e --format otlp",
    ): "needs a collector: test_otlp.py is one",
    ("measure-a-server.md", "lynxbench quick"): PORT,
    ("measure-a-server.md", "lynxbench run bf16.yaml"): TWO_SERVERS,
    ("measure-a-server.md", "lynxbench run fp8.yaml"): TWO_SERVERS,
    ("measure-a-server.md", "lynxbench compare results/bf16-…"): TWO_SERVERS,
    ("offline-gpu-node.md", "python"): NODE,
    ("run-an-experiment.md", "lynxbench experiment run mine.yaml --ray"): CLUSTER,
    ("run-an-experiment.md", "lynxbench push"): "needs a server; that of serve.md is pushed to there",
    ("share-results.md", "export"): DATABASE,
    ("sign-and-verify.md", "lynxbench key issuer"): BUILD,
    ("sign-and-verify.md", "KEYID="): BUILD,
    ("sign-and-verify.md", "curl"): BUILD,
    ("sign-and-verify.md", "LYNXBENCH_KEY=job"): BUILD,
    ("tune-within-a-contract.md", "lynxbench tune"): TUNING,
    ("verify-with-stock-tools.md", "cosign"): COSIGN,
    ("tutorial.md", "make"): INSTALL,
    ("README.md", "make"): INSTALL,
    ("README.md", "lynxbench quick"): PORT,
}
"""Lines that are parsed and not carried out, by how they begin, and why."""

PLANNED: set[Place] = {
    ("measure-a-server.md", "lynxbench run chat-demo"),
    ("measure-a-server.md", "lynxbench run chat.yaml"),
    ("measure-a-server.md", "lynxbench run chat.yaml --intervene"),
    ("measure-a-server.md", "lynxbench run chat.yaml --intervene all"),
    ("measure-a-server.md", "lynxbench run chat.yaml --intervene engine.serve.arguments.max-num-seqs=256"),
    ("write-a-contract.md", "lynxbench run chat.yaml --within 10m"),
    ("tutorial.md", ".venv/bin/lynxbench run my.yaml"),
    ("README.md", "lynxbench run quickstart"),
}
"""Runs of minutes: `--plan` is added, so that the contract is read and planned, and nothing is measured."""

ENDLESS: dict[Place, str] = {
    ("measure-a-server.md", "lynxbench demo-server"): "serving",
    ("schedule.md", "lynxbench schedule agent --name rack-7"): "asking",
    ("serve.md", "lynxbench serve"): "ledger",
    ("serve.md", "lynxbench serve --origin https://bench.example --behind-proxy"): "ledger",
}
"""Commands that go on until they are stopped, and a word of the line by which they say that they are there."""

THERE: set[Place] = {
    ("serve.md", "lynxbench serve"),
    ("serve.md", "lynxbench serve user add ada --team ml-platform --scopes read,submit,contest,administer"),
    ("serve.md", "lynxbench serve key add ml-platform.card"),
    ("serve.md", "lynxbench serve token add ada --scopes read,submit"),
    ("serve.md", "lynxbench key export local"),
    ("serve.md", "lynxbench serve --origin https://bench.example --behind-proxy"),
    ("share-results.md", "lynxbench results import for-hardware.lynx"),
    ("share-results.md", "lynxbench results witness monday.note"),
    ("sign-and-verify.md", f"lynxbench key export {OTHER}"),
}
"""Commands of another team or of the server, in a home of its own."""

REVOKED = "lynxbench key revoke 4c1f09 --reason laptop lost --since 2026-11-01T00:00:00+00:00"
BEFORE: dict[Place, Callable[[Scene], None]] = {
    ("run-an-experiment.md", "lynxbench experiment run mine.yaml"): short_experiment,
    ("sign-and-verify.md", REVOKED): lost_key,
    ("write-a-contract.md", "lynxbench contract check chat.yaml"): misspelt,
    ("write-a-contract.md", "lynxbench contract diff chat.yaml chat-new.yaml"): changed_contract,
}
"""What the reader did between two commands, in the page's words."""
AFTER: dict[Place, Callable[[Scene, str], None]] = {
    ("compare-two-results.md", "lynxbench change declare"): declared_change,
    ("compare-two-results.md", "lynxbench run contract.yaml"): new_result,
    ("offline-gpu-node.md", "lynxbench results import"): imported_result,
    ("run-an-experiment.md", "lynxbench experiment run mine.yaml"): ended_experiment,
    ("serve.md", "lynxbench serve token add"): made_token,
}
"""What the reader takes from an answer into the next command."""
SAYS: dict[Place, str] = {
    ("contract-from-a-log.md", "lynxbench contract check chat.yaml --against-log next-week.jsonl"): "input lengths",
    ("write-a-contract.md", "lynxbench contract check chat.yaml"): "unknown key; did you mean batch?",
    ("write-a-contract.md", "lynxbench contract diff chat.yaml chat-new.yaml"): "workload.batch: 1 -> 8",
    ("README.md", "lynxbench claim"): "contexts are missing",
}
"""Words of the answer that the page shows."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return open_bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("page", [page for page in PAGES if read_commands(page)], ids=lambda page: page.stem)
def test_every_command_ends_as_its_page_says(page: Path, bench: Scene, tmp_path: Path) -> None:
    with scene_of(page.name, bench, tmp_path / "here") as scene:
        for command in read_commands(page):
            if _begins(NOT_HERE, command.page, command.text) is None:
                for simple in take_apart(command.text):
                    _carry_out(scene, command, simple)
            else:
                _read(command.text)


@pytest.mark.parametrize("page", PAGES[:-1], ids=lambda page: page.stem)
def test_commands_within_a_sentence_have_these_words_and_options(page: Path) -> None:
    for command in read_inline(page):
        _read(command.text, whole=False)


def test_every_exception_is_of_a_command_that_is_there() -> None:
    lines = [(command.page, command.text) for page in PAGES for command in read_commands(page)]
    texts = [(page, " ".join(simple.words)) for page, line in lines if not _shell(line) for simple in take_apart(line)]
    for table in (ENDS, PLANNED, ENDLESS, THERE, BEFORE):
        assert set(table) <= set(texts), set(table) - set(texts)
    for beginnings in (NOT_HERE, AFTER, SAYS):
        for page, words in beginnings:
            assert any(at == page and text.startswith(words) for at, text in [*lines, *texts]), (page, words)


def test_a_page_that_names_an_option_that_is_gone_is_found() -> None:
    for text in (
        "lynxbench run --wihtin 10m",
        "lynxbench resluts list",
        "lynxbench fleet run",
        "lynxbench run --plan x y",
    ):
        with pytest.raises(Exception, match=r"No such|Missing|unexpected"):
            _read(text)
    with pytest.raises(SystemExit):
        _read(f"python {TOOL} pack --pyhton 3.12")


def _carry_out(scene: Scene, command: GuideCommand, simple: SimpleCommand) -> None:
    place = (command.page, " ".join(simple.words))
    if not simple.words:
        scene.variables |= {name: scene.meant(value) for name, value in simple.variables.items()}
        return
    assert simple.words[0] in PROGRAMS, f"{command}: neither a command of ours nor listed as one that is not run here"
    if place in BEFORE:
        BEFORE[place](scene)
    actor = scene.there() if place in THERE else scene
    words = [scene.meant(word) for word in simple.words[1:]] + (["--plan"] if place in PLANNED else [])
    if place in ENDLESS:
        _start_and_end(actor, place, words)
        return
    done = actor.ask(*words, **simple.variables)
    usual = (1,) if place[1].startswith(CLAIMS) else (0,)
    assert done.code in ENDS.get(place, usual), f"{command}: ended with {done.code}: {done.err or done.out}"
    says = _begins(SAYS, *place)
    assert says is None or says in done.out + done.err, f"{command}: says {done.out + done.err}"
    if simple.output is not None:
        scene.put(simple.output, done.out)
    after = _begins(AFTER, *place)
    if after is not None:
        after(scene, done.out)


def _start_and_end(scene: Scene, place: Place, words: list[str]) -> None:
    """One that goes on says that it is there; the first server stays for the rest of the page, others end in order."""
    own_port = [] if "agent" in words else ["--port", "0"]
    process, line = scene.start(*words, *own_port, ready=ENDLESS[place])
    if place[1] == "lynxbench serve":
        found = re.search(r"http://[\d.]+:\d+", line)
        assert found is not None, line
        scene.addresses.append(found[0])
    else:
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) in (0, -signal.SIGTERM), f"{place}: ended with {process.returncode}"
        if scene.addresses:
            scene.stands_for["https://bench.example"] = scene.addresses[0]


def _read(text: str, *, whole: bool = True) -> None:
    """Let the parsers read each of our commands in a line that is not carried out."""
    if _shell(text):
        commands = [tuple(part.split()) for part in re.findall(r"lynxbench [^|)]*", text)]
    else:
        commands = [simple.words for simple in take_apart(text) if simple.words]
    for words in commands:
        if words[0] in PROGRAMS:
            parse_only(words[1:], whole=whole)
        elif words[1:2] == (TOOL,):
            parse_tool(ROOT / TOOL, words[2:])
        elif words[0] == "make":
            subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)


def _shell(text: str) -> bool:
    """Whether a line is more than commands one after the other."""
    return any(sign in text for sign in ("|", "$(", ";;"))


def _begins(table: dict[Place, Value], page: str, text: str) -> Value | None:
    return next((value for (at, words), value in table.items() if at == page and text.startswith(words)), None)
