"""`trace` as a program sees it: one JSON document, a page, a Perfetto trace, and one line for bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from lynxbench.attribute.attributing import TraceSettings
from lynxbench.attribute.rank_traces import analyse_ranks
from lynxbench.cli.trace_command import trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound
from lynxbench.report.documents.trace_view import view_of

DATA = Path(__file__).parents[2] / "data" / "traces"
app = typer.Typer()
app.command()(trace)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)


def document(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_document_carries_the_attribution_of_a_result() -> None:
    said = document(DATA / "pageable_h2d.json.gz", "--device", "h200", "--step-ms", 29.9)
    assert said["attribution"]["bottleneck"] == "transfer"
    assert said["attribution"]["bound"] == "software"
    assert said["steps"] == said["attribution"]["steps"] > 1
    assert said["wall_ms_per_step"] > 10
    assert set(said["attribution"]["gain_if_removed"]) == {"low", "estimate", "high"}
    assert said["movements"][0]["name"] == "Memcpy HtoD (Pageable -> Device)"
    assert 5e9 < said["movements"][0]["bytes_per_s"] < 20e9
    assert all(one["estimate_only"] for one in said["what_if"])
    assert any("declared" in ceiling["how"] for ceiling in said["attribution"]["ceilings"])
    assert any("not measured on this machine" in line for line in said["attribution"]["evidence"])


def test_the_document_has_the_keys_that_others_rely_on() -> None:
    said = document(DATA / "input_stall.json.gz", "--device", "h200", "--step-ms", 57.9)
    assert {"attribution", "wall_ms_per_step", "steps", "device", "what_if", "movements"} <= set(said)
    found = said["attribution"]
    assert {"bottleneck", "bound", "layer", "owner", "shares", "gain_if_removed", "evidence"} <= set(found)
    assert found["bottleneck"] == "input"
    assert found["bound"] in {"hardware", "software", "demand", "undetermined"}
    assert sum(found["shares"].values()) == pytest.approx(1.0)
    assert all(isinstance(line, str) for line in found["evidence"])
    gain = found["gain_if_removed"]
    assert 1.0 <= gain["low"] <= gain["estimate"] <= gain["high"]


def test_terminal_html_and_perfetto(tmp_path: Path) -> None:
    page, export = tmp_path / "t.html", tmp_path / "p.json"
    source = DATA / "unfused_elementwise.json.gz"
    result = run(source, "--device", "h200", "--html", page, "--perfetto", export)
    assert result.exit_code == 0, result.output
    assert re.search(r"^(HARDWARE-BOUND|SOFTWARE-BOUND|UNDETERMINED): ", result.stdout, re.MULTILINE)
    assert "What if: expected gain" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 120
    text = page.read_text()
    assert text.count("<svg") >= 6
    assert "Roofline" in text
    assert "<script" not in text
    events = json.loads(export.read_text())["traceEvents"]
    track = [e for e in events if e.get("pid") == "lynxbench" and e.get("tid") == "category" and e["ph"] == "X"]
    assert {e["name"] for e in track} >= {"memory_bandwidth"}
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-2 for a, b in pairwise(track))
    assert sum(e.get("cat") == "kernel" for e in events) > 10


def test_owners_precision_and_what_if(tmp_path: Path) -> None:
    said = document(
        DATA / "fp32_no_tf32.json.gz", "--device", "h200", "--owners", "quickstart", "--what-if", "compute=2"
    )
    assert said["what_if"][0]["change"] == "compute ×2"
    assert said["what_if"][0]["gain"]["estimate"] > 1.5
    assert "TF32" in said["attribution"]["sentence"]


def test_measured_ceilings_from_a_result(tmp_path: Path) -> None:
    listed = [{"name": "copy", "precision": None, "per_s": 4.27e12, "unit": "bytes/s", "how": "4 GiB copy"}]
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"ceilings": listed}))
    said = document(DATA / "unfused_elementwise.json.gz", "--ceilings", path)
    assert said["attribution"]["ceilings"][0]["how"] == "4 GiB copy"
    assert "measured on this machine" in said["attribution"]["sentence"] or said["attribution"]["bound"] == "software"


def test_a_folder_of_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json.gz").write_bytes((DATA / "unfused_elementwise.json.gz").read_bytes())
    said = document(tmp_path)
    assert [row["rank"] for row in said["ranks"]] == [0, 1]
    assert said["straggler"] is None


def _rank(path: Path, work_us: float) -> None:
    """Steps of a product and a collective that waits for the slowest rank."""
    events: list[dict[str, Any]] = []
    for i in range(6):
        at = i * 1_000.0
        spans = (("gemm", 10.0, work_us), ("ncclDevKernel_AllReduce", 10.0 + work_us, 980.0 - work_us))
        events.append({"cat": "user_annotation", "name": f"step#{i}", "tid": 1, "ts": at, "dur": 999.0})
        for k, (name, start, took) in enumerate(spans):
            args = {"correlation": 10 * i + k + 1, "stream": 7}
            events.append(
                {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": at + 2 + k, "dur": 1, "args": args}
            )
            events.append({"cat": "kernel", "name": name, "tid": 7, "ts": at + start, "dur": took, "args": args})
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "pid": 1, **event} for event in events]}))


def test_a_straggler_is_named_to_programs_and_people(tmp_path: Path) -> None:
    for number, work_us in enumerate((500.0, 505.0, 800.0)):
        _rank(tmp_path / f"rank{number}.json", work_us)
    said = document(tmp_path)
    assert said["straggler"] == 2
    waits = [row["exposed_communication_ms"] for row in said["ranks"]]
    assert waits[2] < 0.25 < 0.4 < waits[0]
    assert [row["note"] for row in said["ranks"]] == ["", "", "straggles"]
    shown = run(tmp_path, "--html", tmp_path / "ranks.html")
    assert shown.exit_code == 0
    assert "rank 2 straggles" in shown.stdout
    assert "Ranks side by side" in (tmp_path / "ranks.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.json"], "cannot be read"),
        ([DATA / "truth.json"], "traceEvents"),
        ([DATA / "fp32_no_tf32.json.gz", "--device", "abacus"], "not in the table"),
        ([DATA / "fp32_no_tf32.json.gz", "--step-ms", "-1"], "not a step time"),
        ([DATA / "fp32_no_tf32.json.gz", "--what-if", "speed=2"], "such as compute=2"),
        ([DATA / "fp32_no_tf32.json.gz", "--what-if", "compute=-2"], "such as compute=2"),
        ([DATA / "fp32_no_tf32.json.gz", "--ceilings", DATA / "truth.json", "--device", "h200"], "exclude"),
        ([DATA / "fp32_no_tf32.json.gz", "--ceilings", "absent.json"], "cannot be read"),
        ([DATA / "fp32_no_tf32.json.gz", "--ceilings", DATA / "fp32_no_tf32.json.gz"], "JSON"),
        ([DATA / "fp32_no_tf32.json.gz", "--html", "/absent/folder/t.html"], "cannot be written"),
    ],
)
def test_bad_input_is_one_line(arguments: list[object], words: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, BadInput)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_module_is_light() -> None:
    heavy = "{'torch', 'scipy', 'sqlalchemy', 'rich'}"
    code = f"import sys, lynxbench.cli.trace_command; print(sorted({heavy} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def _step_trace(path: Path, *, kernels: dict[str, float], prepare_us: float = 10.0, steps: int = 8) -> Path:
    """Steps that prepare their batch, then launch kernels one after the other."""
    events: list[dict[str, Any]] = []
    at = 0.0
    for i in range(steps):
        begin = at
        events.append({"cat": "user_annotation", "name": "prepare_batch", "tid": 1, "ts": at, "dur": prepare_us})
        at += prepare_us
        for k, (name, took) in enumerate(kernels.items()):
            args = {"correlation": 100 * i + k + 1}
            events.append(
                {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": at, "dur": 1, "args": args}
            )
            events.append({"cat": "kernel", "name": name, "tid": 7, "ts": at + 2, "dur": took, "args": args})
            at += 2 + took
        events.append({"cat": "user_annotation", "name": f"step#{i}", "tid": 1, "ts": begin, "dur": at - begin})
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "pid": 1, **event} for event in events]}))
    return path


def test_two_traces_are_compared_operator_by_operator(tmp_path: Path) -> None:
    old = _step_trace(tmp_path / "old.json", kernels={"gemm_kernel": 500.0, "norm_kernel": 200.0})
    new = _step_trace(tmp_path / "new.json", kernels={"gemm_kernel": 500.0, "fused_norm": 150.0}, prepare_us=3_010.0)
    said = document(new, "--against", old)["against"]
    rows = {row["name"]: row for row in said["operators"]}
    assert rows["norm_kernel"]["note"] == "gone"
    assert rows["fused_norm"]["note"] == "new"
    assert rows["fused_norm"]["after_ms_per_step"] == pytest.approx(0.15)
    assert rows["gemm_kernel"]["before_ms_per_step"] == pytest.approx(0.5)
    assert (said["layer"], said["owner"]) == ("application", "ML research")
    assert said["before"] == "old.json"
    change = said["after_ms_per_step"] - said["before_ms_per_step"]
    assert change == pytest.approx(2.95, abs=0.01)
    assert sum(part["ms_per_step"] for part in said["parts"]) == pytest.approx(change)
    back = document(old, "--against", new)["against"]
    assert back["after_ms_per_step"] - back["before_ms_per_step"] == pytest.approx(-change)
    assert back["layer"] == "application"
    page = tmp_path / "page.html"
    shown = run(new, "--against", old, "--html", page)
    assert shown.exit_code == 0, shown.output
    assert "Operators and kernels against old.json" in shown.stdout
    assert "lies in layer application" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 120
    assert "fused_norm" in page.read_text()


def test_a_trace_against_itself_differs_in_nothing(tmp_path: Path) -> None:
    said = document(DATA / "input_stall.json.gz", "--against", DATA / "input_stall.json.gz")["against"]
    assert (said["layer"], said["owner"], said["parts"], said["suspects"]) == (None, None, [], [])
    assert all(row["note"] == "" for row in said["operators"])


def test_a_damaged_side_names_nobody(tmp_path: Path) -> None:
    old = _step_trace(tmp_path / "old.json", kernels={"gemm_kernel": 500.0})
    new = _step_trace(tmp_path / "new.json", kernels={"gemm_kernel": 500.0}, prepare_us=3_010.0)
    old.write_bytes(old.read_bytes()[:-200])
    for pair in ((new, old), (old, new)):
        said = document(pair[0], "--against", pair[1])["against"]
        assert (said["layer"], said["owner"], said["suspects"]) == (None, None, [])
        assert "damaged" in said["sentence"]


def test_against_takes_one_trace_on_either_side(tmp_path: Path) -> None:
    trace = DATA / "input_stall.json.gz"
    for arguments, words in (
        ((trace, trace, "--against", trace), "give one"),
        ((trace, "--against", tmp_path / "absent.json"), "cannot be read"),
        ((trace, "--against", tmp_path), "cannot be read"),
    ):
        result = run(*arguments)
        assert isinstance(result.exception, BadInput)
        assert words in str(result.exception)
        assert "\n" not in str(result.exception)


def test_other_hardware_is_not_estimated_from_a_part_of_a_step(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text('[ { "count" : 1 }, { "name" : "conv", "timeMs" : 2.0, "percentage" : 100 } ]')
    said = document(path)
    assert said["what_if"] == []
    assert said["device"] == "not named"
    shown = run(path)
    assert "What if" not in shown.stdout
    asked = run(path, "--what-if", "compute=2")
    assert isinstance(asked.exception, BadInput)
    assert "whole step" in str(asked.exception)


def test_missing_ceilings_are_asked_for_by_their_option() -> None:
    without = run(DATA / "pageable_h2d.json.gz", "--step-ms", 29.9, "--json")
    assert without.exit_code == 0, without.output
    assert "--device h200 takes declared ones" in without.stderr
    assert "--ceilings RESULT" in without.stderr
    json.loads(without.stdout)
    assert "--device h200" not in run(DATA / "pageable_h2d.json.gz", "--device", "h200", "--json").stderr


def test_a_weak_trace_names_nobody() -> None:
    """Who owns one of several level categories is not told to mend it."""
    report = analyse_ranks([DATA / "pageable_h2d.json.gz"], TraceSettings(step_ms=29.9))
    sound = report.main.analysis
    assert sound is not None
    assert view_of(report).attribution.owner is not None, "otherwise this shows nothing"
    weakened = replace(sound, attribution=sound.attribution.model_copy(update={"weak": True}))
    weak = replace(report, ranks=(replace(report.main, analysis=weakened),))
    found = view_of(weak).attribution
    assert (found.bound, found.layer, found.owner) == (Bound.UNDETERMINED, None, None)
    assert "then trace it again" in found.next_step
    assert found.shares == sound.attribution.shares
