"""Servers that a contract has started, through the real command line: one whose capacity is known."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

import tiny_server
from command_line import lynxbench_here
from forged_runs import change_document, seal_again
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.record.verifying import verify_folder
from lynxbench.run import server_intervening
from lynxbench.run.server_keeper import __file__ as keeper_file
from served import served_contract

pytestmark = pytest.mark.usefixtures("one_preflight")

SERVICE_S, KEY = 0.15, "hunter2-hunter2"
"""So long that the lateness of a crowded machine is little beside it."""
SERVERS = f"""\
lynxbench_servers: 1
servers:
  truth:
    command: ["{{python}}", -S, {tiny_server.__file__}, --port, "{{port}}", --service, "{SERVICE_S}", --say, {KEY}]
    environment: {{DEMO_API_KEY: {KEY}}}
    allows: [slots]
"""


def contract(slots: int, restart: str = "client", restarts: int = 2) -> str:
    return served_contract(
        "http://127.0.0.1:0/v1",
        arrival="{process: closed, concurrency: 8}",
        slo="",
        restarts=restarts,
        shortest="3500 ms",
        longest="4 s",
        engine=f"stream: false\nserve: {{server: truth, arguments: {{slots: {slots}}}, restart: {restart}}}",
    ).replace("regime: latency", "regime: throughput")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("launched")
    (folder / "home").mkdir()
    (folder / "home" / "servers.yaml").write_text(SERVERS)
    (folder / "chat.yaml").write_text(contract(1, "server"))
    return folder


def here(bench: Path, *words: str) -> Any:
    return lynxbench_here(*words, cwd=bench, LYNXBENCH_HOME=str(bench / "home"))


def keepers() -> list[int]:
    """Keepers that this process started: others may run tests too."""
    below = psutil.Process(os.getpid()).children(recursive=True)
    return [one.pid for one in below if keeper_file in one.cmdline()]


@pytest.fixture(scope="module")
def ran(bench: Path) -> dict[str, Any]:
    explicit = "engine.serve.arguments.slots=4"
    with mock.patch.object(server_intervening, "ROUNDS", 1):  # two would take the test twice as long
        done = here(bench, "run", "chat.yaml", "--json", "--ledger", "ledger", "--intervene", explicit)
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def test_a_run_starts_its_server_measures_it_and_leaves_none(bench: Path, ran: dict[str, Any]) -> None:
    part = ran["per_precision"][0]
    assert part["load"]["requests_per_s"]["estimate"] == pytest.approx(1 / SERVICE_S, rel=0.25)  # one at a time
    assert part["restarts"] == 2
    serving = ran["executor"]["layers"]["serving"]
    command = serving["server_command"]["value"]
    assert command[-2:] == ["--slots", "1"]
    assert "{port}" in command  # any free one is no property of the server
    assert ran["executor_drift"] == []
    assert not any("restarted" in reason for reason in ran["validity"]["reasons"])
    (folder,) = (bench / "results").iterdir()
    log = (folder / "server.txt").read_text()
    assert log.count("--- server") == 2 + 2  # one for each restart, then unchanged and changed
    assert "<withheld>" in log
    assert "hunter2" not in "".join(file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file())
    assert keepers() == []


def test_the_true_ratio_of_an_intervention_is_found(ran: dict[str, Any]) -> None:
    attribution = ran["attribution"]
    (tried,) = attribution["interventions"]
    assert tried["name"] == "launch with --slots 4"
    assert tried["measured"]["estimate"] == pytest.approx(4.0, rel=0.2)
    assert "by intervention: launch with --slots 4 gained" in attribution["sentence"]


def test_the_gain_follows_from_the_visits_that_were_kept(bench: Path, ran: dict[str, Any], tmp_path: Path) -> None:
    """Found: a server's measured gain was taken as it stood, whatever its clients had counted."""
    kept = bench / "results" / ran["run_id"]

    def lines(folder: Path) -> dict[str, tuple[str, str]]:
        return {check.name: (check.outcome.value, check.why) for check in verify_folder(folder).checks}

    def copied(name: str) -> Path:
        shutil.copytree(kept, tmp_path / name)
        return tmp_path / name

    with mock.patch.object(server_intervening, "ROUNDS", 1):
        held = lines(kept)
        assert held["fp32 interventions"][0] == held["fp32 attribution"][0] == "holds", held
        assert "fp32 launches" not in held

        lied = copied("gain")
        result = read_result(lied)
        (part,) = result.per_precision
        assert part.attribution is not None
        (tried,) = part.attribution.interventions
        better = tried.model_copy(update={"measured": tried.measured.scaled(2.0)})
        said = part.attribution.model_copy(update={"interventions": (better,), "gain_if_removed": better.measured})
        update = {"attribution": said, "per_precision": (part.model_copy(update={"attribution": said}),)}
        seal_again(lied, result.model_copy(update=update))
        assert lines(lied)["fp32 interventions"][0] == "does not hold"

        other = copied("launch")
        change_document(
            other / "interventions" / "server-01-0" / "job.json", lambda job: job.update(launched={"slots": 9})
        )
        write_manifest(other)
        assert "was launched otherwise (launch with --slots 9)" in lines(other)["fp32 interventions"][1]

        gone = copied("gone")
        shutil.rmtree(gone / "interventions" / "server-01-0")
        write_manifest(gone)
        assert "no visit of it that gave a figure is here" in lines(gone)["fp32 interventions"][1]

        older = copied("older")
        for file in (older / "interventions").glob("*/job.json"):
            change_document(file, lambda job: job.pop("launched"))
        write_manifest(older)
        assert lines(older)["fp32 interventions"][0] == "holds"
        assert lines(older)["fp32 launches"][0] == "cannot be recomputed"

        ended = copied("ended")
        (ended / "interventions" / "server-01-0" / server_intervening.ENDED_FILE).write_text("it ended with code 9")
        write_manifest(ended)
        assert lines(ended)["fp32 interventions"][0] == "does not hold"


def test_its_result_verifies_and_a_rerun_shows_what_it_would_start(bench: Path, ran: dict[str, Any]) -> None:
    verified = here(bench, "verify", ran["result_id"], "--ledger", "ledger")
    assert verified.code == 0, verified.out + verified.err
    shown = here(bench, "rerun", ran["result_id"], "--show", "--ledger", "ledger")
    assert shown.code == 0, shown.err
    assert "starts your server truth (" in shown.out
    assert "tiny_server.py --port 0" in shown.out
    servers = bench / "home" / "servers.yaml"
    servers.write_text(SERVERS.replace("allows: [slots]", "allows: []"))
    refused = here(bench, "rerun", ran["result_id"], "--show", "--ledger", "ledger")
    servers.write_text(SERVERS)
    assert refused.code == 3
    assert "starts your server 'truth' with --slots 1, which a document may not set" in refused.err
    servers.rename(bench / "home" / "elsewhere")
    missing = here(bench, "rerun", ran["result_id"], "--show", "--ledger", "ledger")
    (bench / "home" / "elsewhere").rename(servers)
    assert missing.code == 4
    assert "write into it what 'truth' is" in missing.err


def test_an_experiment_over_a_launch_argument_finds_the_true_ratio(bench: Path) -> None:
    (bench / "one.yaml").write_text(contract(1))
    (bench / "slots.yaml").write_text(
        "lynxbench_experiment: 1\nname: slots\nquestion: What are slots worth?\ncontract: one.yaml\nrestarts: 1\n"
        "factors:\n  - {name: slots, layer: serving, sets: engine.serve.arguments.slots, levels: [1, 4]}\n"
    )
    done = here(bench, "experiment", "run", "slots.yaml", "--json", "--ledger", "none")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    (effect,) = [one for one in document["analysis"]["effects"] if one["factors"] == ["slots"]]
    assert effect["ratio"]["estimate"] == pytest.approx(4.0, rel=0.2)
    assert [cell["status"] for cell in document["cells"]] == ["measured", "measured"]
    assert keepers() == []


def test_a_server_that_does_not_come_up_ends_the_command_with_one_line(bench: Path) -> None:
    (bench / "wrong.yaml").write_text(contract(1).replace("slots: 1", "no-such: true"))
    done = here(bench, "run", "wrong.yaml", "--ledger", "none")
    assert done.code == 4
    assert "server truth ended with code 1: no such option: --no-such" in done.err
    assert "no such option" in (bench / "results" / "server-truth-failed.txt").read_text()
    assert keepers() == []
