"""Experiments and tunings through the real command line: every cell and trial leaves a result that verifies."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from command_line import lynxbench, lynxbench_here
from experiments import CONTRACT, EXPERIMENT, UPGRADING, VERSIONS, WORK
from lynxbench.cli.showing import terminal_text
from lynxbench.evidence.documents import RESULT_FILE, read_result, write_result
from lynxbench.experiment.cells import plan_cells
from lynxbench.experiment.experiment_folder import ExperimentFolder
from lynxbench.experiment.experiment_outcome import describe, kept_values
from lynxbench.model.experiment import CellStatus
from lynxbench.model.result import Validity
from lynxbench.model.verdicts import ValidityVerdict
from lynxbench.model.verification import CheckOutcome
from lynxbench.record.verifying_analyses import check_experiment
from lynxbench.report.documents.experiment_document import compose_experiment
from wheels import tiny_lock


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "working.py").write_text(WORK)
    (folder / "cells.yaml").write_text(EXPERIMENT)
    return folder


@pytest.fixture(scope="module")
def ran(bench: Path) -> dict[str, Any]:
    done = lynxbench_here("experiment", "run", "cells.yaml", "--json", "--ledger", "ledger", cwd=bench)
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def test_cells_are_measured_and_the_impossible_one_is_recorded_with_its_reason(ran: dict[str, Any]) -> None:
    cells = {tuple(cell["levels"].values()): cell for cell in ran["cells"]}
    assert {levels: cell["status"] for levels, cell in cells.items()} == {
        ("1", "0"): "measured",
        ("1", "1"): "measured",
        ("3", "0"): "measured",
        ("3", "1"): "infeasible",
    }
    assert "wide and slow do not fit" in cells["3", "1"]["reason"]
    assert all(len(cell["values"]) == 2 for cell in cells.values())
    assert max(cells["1", "1"]["values"]) > 1.2 * max(cells["1", "0"]["values"]), "a machine that stalls slows a visit"
    assert len({cell["executor_id"] for cell in cells.values() if cell["executor_id"]}) >= 1
    analysis = ran["analysis"]
    assert analysis["word"] == "undetermined"
    assert "cells are missing" in analysis["reasons"][0]
    assert sorted(ran["order"][0]) == [0, 1, 2, 3]


def test_every_cell_is_evidence_in_the_ledger(bench: Path, ran: dict[str, Any]) -> None:
    listed = json.loads(lynxbench_here("results", "list", "--json", "--ledger", "ledger", cwd=bench).out)
    recorded = {one["result_id"] for one in listed["results"]}
    cells = ran["cells"]
    ids = {one for cell in cells for one in cell["result_ids"]}
    assert len(ids) == 3
    assert ids <= recorded
    assert listed["unfinished"] == []
    one = sorted(ids)[0]
    verified = lynxbench_here("verify", one, "--ledger", "ledger", cwd=bench)
    assert verified.code == 0, verified.out + verified.err
    assert "HOLDS" in verified.out.upper()


def test_a_finished_experiment_is_shown_again(bench: Path, ran: dict[str, Any]) -> None:
    folder = bench / "experiments" / str(ran["experiment_id"])
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    shown = lynxbench_here("experiment", "show", str(folder), cwd=bench)
    assert shown.code == 0
    assert "UNDETERMINED" in shown.out
    assert "infeasible: 3, 1: " in shown.out
    again = json.loads(lynxbench_here("experiment", "show", str(folder / "analysis.json"), "--json", cwd=bench).out)
    assert again == ran
    assert lynxbench_here("experiment", "show", str(bench / "nothing"), cwd=bench).code == 2
    assert lynxbench_here("experiment", "run", "cells.yaml", "--resume", cwd=bench).code == 2


def test_the_analysis_itself_is_evidence_and_is_made_again_from_the_cells(bench: Path, ran: dict[str, Any]) -> None:
    verified = lynxbench_here("verify", ran["analysis_id"][:12], "--ledger", "ledger", "--json", cwd=bench)
    assert verified.code == 0, verified.out + verified.err
    report = json.loads(verified.out)
    assert (report["analysis_id"], report["kind"], report["signed"]) == (ran["analysis_id"], "experiment", True)
    held = {one["name"]: one["why"] for one in report["checks"] if one["outcome"] == "holds"}
    assert {"analysis", "cells", "analysis id", "order of visits", "registration", "log inclusion"} <= held.keys()
    assert held["results cited"] == "all 3"
    by_name = lynxbench_here("verify", ran["experiment_id"], "--ledger", "ledger", cwd=bench)
    assert by_name.code == 0
    assert "experiment " in by_name.out
    assert " holds" in by_name.out
    folder = bench / "experiments" / ran["experiment_id"]
    assert lynxbench_here("verify", str(folder), "--ledger", "ledger", cwd=bench).code == 0
    assert lynxbench_here("verify", str(folder), "--record", "--ledger", "ledger", cwd=bench).code == 3


def test_an_analysis_by_the_earlier_rule_of_cells_verifies_and_says_so(
    bench: Path, ran: dict[str, Any], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bench / "experiments" / ran["experiment_id"], copy)
    folder = ExperimentFolder.open(copy)
    cells = plan_cells(folder.plan.definition)
    ended = datetime.fromisoformat(ran["finished_at"])
    older = describe(folder, cells, kept_values(folder, cells), ended, within_blocks=True)
    (copy / "analysis.json").write_text(older.model_dump_json())
    done = lynxbench_here("verify", str(copy), "--ledger", "none", cwd=bench)
    assert done.code == 0, done.out + done.err
    assert "earlier rule that leaves out the spread between blocks" in done.out


def test_a_cell_whose_run_is_void_is_not_called_infeasible(
    bench: Path, ran: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(bench / "experiments" / ran["experiment_id"], copy)
    folder = ExperimentFolder.open(copy)
    cells = plan_cells(folder.plan.definition)
    (run,) = folder.cell(0).runs.values()
    sound = read_result(folder.runs / run)
    void = Validity(verdict=ValidityVerdict.VOID, reasons=("executor changed during the run: planted",))
    write_result(folder.runs / run / RESULT_FILE, sound.model_copy(update={"validity": void}).sealed())
    values = {key: value for key, value in kept_values(folder, cells).items() if key[0] != cells[0].cell}
    stated = describe(folder, cells, values, datetime.fromisoformat(ran["finished_at"]))
    assert stated.cells[0].status is CellStatus.VOID
    assert stated.cells[0].reason == "void: executor changed during the run: planted"
    assert "void: 1, 0: void: executor changed" in " ".join(terminal_text(compose_experiment(stated)).split())
    # Documents from before the word was there still verify, and it is said.
    monkeypatch.setattr("lynxbench.record.verifying_analyses.kept_values", lambda *_: values)
    earlier = stated.cells[0].model_copy(update={"status": CellStatus.INFEASIBLE})
    for document, told in ((stated, False), (stated.model_copy(update={"cells": (earlier, *stated.cells[1:])}), True)):
        checks = check_experiment(folder, document)
        assert [check.name for check in checks if check.outcome is CheckOutcome.DOES_NOT_HOLD] == []
        assert ("state of cells" in {check.name for check in checks}) == told


@pytest.mark.parametrize(
    ("file", "change", "line"),
    [
        ("analysis.json", ("estimate", 1.07), "recomputed"),
        ("analysis.json", ("word", '"decomposable"'), "analysis"),
        ("state.json", ("runs", None), "is of another contract"),
        ("state.json", ("twice", None), "stands in two places"),
        ("experiment.json", ("order", None), "order of visits"),
    ],
)
def test_verifying_says_what_differs(
    bench: Path, ran: dict[str, Any], tmp_path: Path, file: str, change: tuple[str, Any], line: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(bench / "experiments" / ran["experiment_id"], folder)
    document = json.loads((folder / file).read_text())
    name, value = change
    if name == "estimate":
        document["analysis"]["effects"][0]["ratio"]["estimate"] *= value
    elif name == "word":
        document["analysis"]["word"] = "decomposable"
    elif name == "runs":  # two cells exchange their runs: the better one's name on the other's evidence
        cells = document["cells"]
        cells["0"]["runs"], cells["2"]["runs"] = cells["2"]["runs"], cells["0"]["runs"]
    elif name == "twice":  # one good run is counted in two lanes
        (run,) = document["cells"]["2"]["runs"].values()
        document["cells"]["2"]["runs"] |= {"1": run}
    else:
        document["order"] = [sorted(block) for block in document["order"]]
    (folder / file).write_text(json.dumps(document))
    done = lynxbench_here("verify", str(folder), "--ledger", "none", cwd=bench)
    assert done.code == 5
    assert "DOES NOT HOLD" in done.out
    assert (line in done.out) or (name == "runs" and "processes were given" in done.out), done.out


def test_an_analysis_travels_with_its_cells_and_stands_on_them(bench: Path, ran: dict[str, Any]) -> None:
    done = lynxbench_here("results", "export", ran["analysis_id"], "-o", "whole.lynx", "--ledger", "ledger", cwd=bench)
    assert done.code == 0, done.err
    assert done.out.startswith("whole.lynx: 3 results")
    taken = lynxbench_here("results", "import", "whole.lynx", "--ledger", "second", cwd=bench)
    assert taken.code == 0, taken.err
    verified = lynxbench_here("verify", ran["analysis_id"], "--ledger", "second", cwd=bench)
    assert verified.code == 0, verified.out
    one = next(cell["result_ids"][0] for cell in ran["cells"] if cell["result_ids"])
    alone = lynxbench_here("results", "export", one, "-o", "one.lynx", "--ledger", "ledger", cwd=bench)
    assert alone.out.startswith("one.lynx: 1 results")
    lynxbench_here("results", "import", "one.lynx", "--ledger", "third", cwd=bench)
    assert lynxbench_here("verify", ran["analysis_id"], "--ledger", "third", cwd=bench).code == 2
    folder = bench / "experiments" / ran["experiment_id"]
    recorded = json.loads(lynxbench_here("results", "import", str(folder), "--ledger", "late", "--json", cwd=bench).out)
    assert (recorded["analysis_id"], recorded["new"], recorded["new_results"]) == (ran["analysis_id"], 1, 3)
    again = json.loads(lynxbench_here("results", "import", str(folder), "--ledger", "late", "--json", cwd=bench).out)
    assert (again["new"], again["new_results"]) == (0, 0)
    assert lynxbench_here("retract", one, "--reason", "wrong cooling", "--ledger", "second", cwd=bench).code == 0
    now = lynxbench_here("verify", ran["analysis_id"], "--ledger", "second", cwd=bench)
    assert now.code == 5
    assert "retracted by" in now.out


@pytest.mark.slow
def test_an_interrupted_experiment_goes_on_where_it_stopped(bench: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lynxbench", "experiment", "run", "cells.yaml", "--out", str(tmp_path / "out")]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=bench, env=os.environ, stderr=pipe, stdout=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "block 1/2, 3/4" in line or "block 2/2" in line:
                break
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        assert child.wait(600) == 130
    assert "--resume" in said
    (folder,) = (tmp_path / "out").iterdir()
    before = sorted(path.name for path in folder.glob("runs/*/attempts/*"))
    done = lynxbench_here(
        "experiment", "run", "cells.yaml", "--out", str(tmp_path / "out"), "--resume", "--json", cwd=bench
    )
    assert done.code == 0, done.err
    cells = json.loads(done.out)["cells"]
    assert [cell["status"] for cell in cells].count("measured") == 3, [cell["reason"] for cell in cells]
    assert (tmp_path / "out" / folder.name / "analysis.json").exists()
    assert len([*folder.glob("runs/*/attempts/*")]) >= len(before)
    assert len([*(tmp_path / "out").glob("work-cells-*")]) == 1


def _stranger_copy(bench: Path, ran: dict[str, Any], out: Path) -> Path:
    """The finished experiment as an unfinished one that somebody put where `--resume` looks."""
    folder = out / str(ran["experiment_id"])
    shutil.copytree(bench / "experiments" / str(ran["experiment_id"]), folder)
    (folder / "analysis.json").unlink()
    for run in (folder / "runs").iterdir():
        (run / "result.json").unlink(missing_ok=True)
        shutil.rmtree(run / "attempts", ignore_errors=True)
    return folder


@pytest.mark.parametrize("hostile", ["interpreter", "variable", "contract"])
def test_going_on_executes_nothing_that_the_folder_alone_asks_for(
    bench: Path, ran: dict[str, Any], tmp_path: Path, hostile: str
) -> None:
    marker, evil = tmp_path / "executed", tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {marker}\n")
    evil.chmod(0o755)
    (bench / "evil_work.py").write_text(f"open({str(marker)!r}, 'w')")
    folder = _stranger_copy(bench, ran, tmp_path / "out")
    for run in (folder / "runs").iterdir():
        registration = json.loads((run / "registration.json").read_text())
        around = registration["surroundings"] or {}
        if hostile == "interpreter":
            registration["surroundings"] = {**around, "interpreter": str(evil)}
        elif hostile == "variable":
            registration["surroundings"] = {**around, "environment": {"PYTHONPATH": str(tmp_path)}}
        else:
            registration["contract"]["workload"]["model"]["target"] = "evil_work:work"
        (run / "registration.json").write_text(json.dumps(registration))
    done = lynxbench_here("experiment", "run", "cells.yaml", "--out", str(tmp_path / "out"), "--resume", cwd=bench)
    assert done.code == 3, done.err
    assert "start anew" in done.err
    assert not marker.exists()


def test_another_definition_under_the_id_of_yours_is_not_gone_on_with(
    bench: Path, ran: dict[str, Any], tmp_path: Path
) -> None:
    folder = _stranger_copy(bench, ran, tmp_path / "out")
    plan = json.loads((folder / "experiment.json").read_text())
    plan["definition"]["question"] = "Is this another experiment?"
    (folder / "experiment.json").write_text(json.dumps(plan))
    done = lynxbench_here("experiment", "run", "cells.yaml", "--out", str(tmp_path / "out"), "--resume", cwd=bench)
    assert done.code == 2, done.err
    assert "no unfinished experiment" in done.err


@pytest.mark.slow
def test_a_version_is_a_factor_through_environments_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "upgrading.py").write_text(UPGRADING)
    for version in ("1.0", "2.0"):
        tiny_lock(tmp_path, version)
    (tmp_path / "upgrade.yaml").write_text(VERSIONS)
    done = lynxbench_here("experiment", "run", "upgrade.yaml", "--json", "--ledger", "ledger", cwd=tmp_path)
    assert done.code == 0, done.err
    cells = json.loads(done.out)["cells"]
    assert [cell["status"] for cell in cells] == ["measured", "measured"]
    assert [cell["packages"]["packages"]["tinylayer"] for cell in cells] == ["1.0", "2.0"]
    assert max(cells[1]["values"]) > 1.4 * max(cells[0]["values"]), "a machine that stalls slows a visit"
    assert cells[0]["executor_id"] != cells[1]["executor_id"]
    results = [json.loads(path.read_text()) for path in tmp_path.glob("experiments/*/runs/*/result.json")]
    seen = {one["executor"]["layers"]["framework"]["distributions"]["value"]["tinylayer"] for one in results}
    assert seen == {"1.0", "2.0"}
    verified = lynxbench_here("verify", cells[1]["result_ids"][0], "--ledger", "ledger", cwd=tmp_path)
    assert verified.code == 0, verified.out


def test_a_lock_file_that_is_not_there_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "upgrade.yaml").write_text(VERSIONS)
    done = lynxbench_here("experiment", "run", "upgrade.yaml", cwd=tmp_path)
    assert done.code == 2
    assert "tiny-1.0.txt is no file beside the experiment" in done.err
    assert not (tmp_path / "experiments").exists()


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two lanes need two CPUs")
def test_lanes_are_proven_apart_or_not_used(bench: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    lanes = f"lanes: [{{cpus: [{cpus[0]}]}}, {{cpus: [{cpus[1]}]}}]\nsmallest_effect: 50 %\nfactors:"
    one_factor = "".join(line for line in EXPERIMENT.splitlines(keepends=True) if "name: slow" not in line)
    (bench / "lanes.yaml").write_text(one_factor.replace("factors:", lanes))
    done = lynxbench("experiment", "run", "lanes.yaml", "--json", "--out", "lanes", cwd=bench)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert [cell["status"] for cell in document["cells"]] == ["measured"] * 2
    (said,) = [note for note in document["notes"] if "lanes" in note]
    assert "disturb each other: the baseline changes by" in said
    apart = said.startswith("lanes do not disturb")
    assert document["lanes"] == ("2 lanes side by side" if apart else "one after another")
    assert {len(cell["result_ids"]) for cell in document["cells"]} == ({2} if apart else {1})


TUNED = f"""\
{CONTRACT.replace(chr(10) + "  ", chr(10)).removeprefix("  ")}\
optimisation:
  division: bounded
  knobs:
    environment.work_slow: [1, 3]
    environment.work_cheat: [0, 1]
  trials: 3
policy:
  accuracy: {{metric: relative-error, largest_loss: 1 %}}
"""


@pytest.mark.slow
def test_a_tuning_confirms_on_unseen_seeds_and_reports_the_confirmation(bench: Path) -> None:
    (bench / "tuned.yaml").write_text(TUNED)
    done = lynxbench_here("tune", "tuned.yaml", "--json", "--confirmations", "2", "--ledger", "tuned-ledger", cwd=bench)
    assert done.code == 1, done.err
    document = json.loads(done.out)
    assert len(document["trials"]) == 3
    cheats = [trial for trial in document["trials"] if trial["setting"]["environment.work_cheat"] == 1]
    assert cheats
    assert {trial["status"] for trial in cheats} == {"refused by the accuracy gate"}
    assert document["tuned"]["setting"]["environment.work_cheat"] == 0
    assert document["tuned"]["accuracy"].startswith("go")
    assert document["division"] == "bounded"
    assert (document["baseline"]["division"], document["tuned"]["division"]) == ("none", "bounded")
    seeds = document["tuned"]["seeds"]
    assert len(set(seeds)) == 2
    searched_on = {
        json.loads(path.read_text())["contract"]["workload"]["seed"] for path in _trial_results(bench, document)
    }
    assert len(searched_on) == 1
    assert not searched_on & set(seeds)
    assert seeds == document["baseline"]["seeds"]
    listed = json.loads(
        lynxbench_here("results", "list", "--json", "--ledger", "tuned-ledger", "--limit", "99", cwd=bench).out
    )
    recorded = {one["result_id"] for one in listed["results"]}
    assert {trial["result_id"] for trial in document["trials"] if trial["result_id"]} <= recorded
    assert {*document["tuned"]["result_ids"], *document["baseline"]["result_ids"]} <= recorded
    curse = document["winners_curse"]
    searched = [t["response"] for t in document["trials"] if t["setting"] == document["tuned"]["setting"]]
    assert curse["in_search"] == pytest.approx(math.exp(sum(math.log(x) for x in searched) / len(searched)))
    assert document["tuned"]["response"]["estimate"] not in searched
    folder = bench / "tunings" / document["tuning_id"]
    assert "division: bounded" in (folder / "tuned.yaml").read_text()
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert document["verdict"] in ("gain indicated, not proven", "no gain confirmed"), "two pairs prove nothing"
    assert "2 pairs, where a verdict rests on 5" in document["sentence"]
    shown = lynxbench_here("experiment", "show", str(folder), cwd=bench)
    assert shown.code == 0, shown.err
    assert "2 pairs, where a verdict rests on 5" in " ".join(shown.out.split())
    again = lynxbench_here("experiment", "show", str(folder / "outcome.json"), "--json", cwd=bench)
    assert json.loads(again.out) == document
    checked = lynxbench_here("contract", "check", str(folder / "tuned.yaml"), cwd=bench)
    assert checked.code == 0, checked.err
    first, other = document["tuned"]["result_ids"][0], document["baseline"]["result_ids"][0]
    verified = lynxbench_here("verify", document["analysis_id"], "--ledger", "tuned-ledger", "--all", cwd=bench)
    assert verified.code == 0, verified.out
    assert "✓ trials: holds: 3, each with its response and the accuracy gate" in verified.out
    assert "✓ choice: holds" in verified.out
    kept = (folder / "tuning.json").read_text()
    longer = json.loads(kept)
    longer["pairs"].append(longer["pairs"][0])
    (folder / "tuning.json").write_text(json.dumps(longer))
    doubted = lynxbench_here("verify", str(folder), "--ledger", "none", cwd=bench)
    assert doubted.code == 5
    assert "pair 3 of 2 planned was not called for by those before it" in doubted.out
    forged = json.loads(kept)
    forged["trials"][0]["response"] *= 1.5
    (folder / "tuning.json").write_text(json.dumps(forged))
    doubted = lynxbench_here("verify", str(folder), "--ledger", "none", cwd=bench)
    assert doubted.code == 5
    assert "trial 1: " in doubted.out
    invented = json.loads(kept)
    invented["trials"][0] |= {"run": "", "result_id": None, "response": 1e-3, "status": "measured"}
    (folder / "tuning.json").write_text(json.dumps(invented))
    doubted = lynxbench_here("verify", str(folder), "--ledger", "none", cwd=bench)
    assert doubted.code == 5
    assert "trial 1: stated measured, and no run of it is named" in doubted.out
    refused = lynxbench_here("compare", other, first, "--ledger", "tuned-ledger", cwd=bench)
    assert refused.code == 3
    assert "R03" in refused.out


def _trial_results(bench: Path, document: dict[str, Any]) -> list[Path]:
    folder = bench / "tunings" / document["tuning_id"] / "runs"
    return [folder / trial["run"] / "result.json" for trial in document["trials"] if trial["run"]]


def test_a_contract_that_allows_no_tuning_is_refused(spin_folder: Path) -> None:
    done = lynxbench_here("tune", "spin.yaml", cwd=spin_folder)
    assert done.code == 2
    assert "division is none" in done.err
    assert lynxbench_here("tune", "spin.yaml", "--search", "luck", cwd=spin_folder).code == 2
