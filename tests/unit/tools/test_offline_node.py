"""The runner for machines that reach nothing: what it carries out, what it brings back, what it does with limits."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[3] / "tools" / "offline_node.py"
RESULT = {
    "result_id": "ab" * 32,
    "attribution": {"sentence": "software-bound: launch"},
    "per_precision": [
        {
            "precision": "bf16",
            "native": "native",
            "sustained": {"low": 126.97, "estimate": 127.03, "high": 127.09, "unit": "tokens/s"},
            "latency_ms": {"latency": [{"percentile": 50, "estimate": 7.872}]},
            "energy_j_per_unit": {"low": 2.65, "estimate": 2.69, "high": 2.73, "unit": "J/token"},
            "steady": {"verdict": "steady"},
            "governed_by": None,
            "activity": {"sm": 0.5, "tensor": 0.02, "dram": 0.4},
            "accuracy": {"loss": 0.0794},
            "validity": {"verdict": "valid"},
        },
        {"precision": "fp8", "skipped": {"reason": "unsupported"}},
    ],
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("offline_node", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def node_of(
    tool: ModuleType, folder: Path, answers: dict[str, tuple[int | None, str, str]], within: float = 600
) -> Any:
    """A node whose program answers by the contract's name, and remembers what it was asked."""
    node = tool.Node(folder / "out", folder / "state", folder / "site", within)
    node.asked = []

    def lynxbench(arguments: Sequence[str], limit_s: float) -> tuple[int | None, str, str]:
        node.asked.append((list(arguments), limit_s))
        return answers[arguments[1]]

    node.lynxbench = lynxbench
    return node


def steps_in(folder: Path) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = json.loads((folder / "out" / "summary.json").read_text())["steps"]
    return steps


def test_a_measured_contract_is_told_in_figures_and_not_repeated(tool: ModuleType, tmp_path: Path) -> None:
    node = node_of(tool, tmp_path, {"one": (0, json.dumps(RESULT), "said\n")})
    assert tool.run(node, [tool.Step("one", 50)]) == 0
    (step,) = steps_in(tmp_path)
    assert (step["status"], step["verdict"], step["result_id"]) == ("measured", "software-bound: launch", "ab" * 32)
    assert step["figures"][0] == (
        "bf16 (native): 127.03 [126.97, 127.09] tokens/s · p50 7.872 ms · 2.69 [2.65, 2.73] J/token · steady · "
        "governed by nothing seen · sm 50%, tensor 2%, dram 40% · loss 7.94% · valid"
    )
    assert step["figures"][1] == "fp8: skipped: unsupported"
    again = node_of(tool, tmp_path, {})
    assert tool.run(again, [tool.Step("one", 50)]) == 0
    assert again.asked == []


def test_whoever_watches_reads_no_blame_that_the_evidence_does_not_carry(tool: ModuleType, tmp_path: Path) -> None:
    beside = f"lynxbench: {RESULT['result_id'][:12]}: undetermined: nobody is blamed, because it is not steady; next: x"
    node = node_of(tool, tmp_path, {"one": (0, json.dumps(RESULT), f"lynxbench: made key 12\n{beside}\n")})
    assert tool.run(node, [tool.Step("one", 50)]) == 0
    (step,) = steps_in(tmp_path)
    assert step["verdict"] == "undetermined: nobody is blamed, because it is not steady; next: x"


def test_an_interrupted_contract_goes_on_where_it_stopped(tool: ModuleType, tmp_path: Path) -> None:
    assert tool.run(node_of(tool, tmp_path, {"one": (130, "", "interrupted")}), [tool.Step("one", 50)]) == 1
    assert steps_in(tmp_path)[0]["status"] == "interrupted"
    node = node_of(tool, tmp_path, {"one": (0, json.dumps(RESULT), "")})
    assert tool.run(node, [tool.Step("one", 50)]) == 0
    assert "--resume" in node.asked[0][0]


def test_an_experiment_is_told_by_its_sentence_and_its_page_comes_back(tool: ModuleType, tmp_path: Path) -> None:
    said = json.dumps({"analysis": {"sentence": "the effects depend on each other"}})
    assert tool.run(node_of(tool, tmp_path, {"run": (130, "", "")}), [tool.Step("experiment:cube", 50)]) == 1
    node = node_of(tool, tmp_path, {"run": (0, said, "")})
    done = tmp_path / "state" / "experiments" / "cube-1"
    done.mkdir()
    (done / "report.html").write_text("<p>page")
    assert tool.run(node, [tool.Step("experiment:cube", 50)]) == 0
    asked = node.asked[0][0]
    assert asked[:3] == ["experiment", "run", "cube"]
    assert asked[-1] == "--resume"
    (step,) = steps_in(tmp_path)
    assert (step["status"], step["verdict"]) == ("measured", "the effects depend on each other")
    tool.unpack(tmp_path / "out", tmp_path / "back")
    assert (tmp_path / "back" / "reports" / "cube-1.html").read_text() == "<p>page"


def test_a_tuning_that_proves_nothing_is_told_and_what_it_came_to_comes_back(tool: ModuleType, tmp_path: Path) -> None:
    said = json.dumps({"verdict": "gain indicated, not proven"})
    assert tool.run(node_of(tool, tmp_path, {"c.yaml": (130, "", "")}), [tool.Step("tuning:c.yaml", 50)]) == 1
    node = node_of(tool, tmp_path, {"c.yaml": (1, said, "")})
    done = tmp_path / "state" / "tunings" / "c-tune-1"
    done.mkdir()
    (done / "outcome.json").write_text("{}")
    assert tool.run(node, [tool.Step("tuning:c.yaml", 50)]) == 0
    assert node.asked[0][0][:2] == ["tune", "c.yaml"]
    assert node.asked[0][0][-1] == "--resume"
    (step,) = steps_in(tmp_path)
    assert (step["status"], step["verdict"]) == ("measured", "gain indicated, not proven")
    tool.unpack(tmp_path / "out", tmp_path / "back")
    assert (tmp_path / "back" / "reports" / "c-tune-1.json").read_text() == "{}"


def test_limits_are_those_of_the_step_and_of_the_whole(tool: ModuleType, tmp_path: Path) -> None:
    node = node_of(tool, tmp_path, {name: (0, json.dumps(RESULT), "") for name in ("a", "b")}, within=100)
    tool.run(node, [tool.Step("a", 30), tool.Step("b", 500)])
    assert node.asked[0][1] == 30
    assert node.asked[1][1] <= 100 - tool.RESERVE_S
    late = node_of(tool, tmp_path / "late", {}, within=tool.RESERVE_S)
    assert tool.run(late, [tool.Step("a", 30)]) == 0
    assert late.asked == []
    assert steps_in(tmp_path / "late")[0]["status"] == "not started"


@pytest.mark.parametrize(
    ("code", "status", "whole"), [(1, "void", 1), (4, "cannot", 4), (None, "killed", 1), (2, "failed", 1)]
)
def test_exit_codes_become_words(tool: ModuleType, tmp_path: Path, code: int | None, status: str, whole: int) -> None:
    node = node_of(tool, tmp_path, {"one": (code, "no json", "why")})
    assert tool.run(node, [tool.Step("one", 50)]) == whole
    assert steps_in(tmp_path)[0]["status"] == status


def test_reports_come_back_in_parts_and_unpack_whole(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "PART_BYTES", 100)
    node = node_of(tool, tmp_path, {"one": (0, json.dumps(RESULT), "")})
    ran = tmp_path / "state" / "runs" / "one-1"
    ran.mkdir()
    (ran / "report.md").write_text("# " + " ".join(map(str, range(400))))
    tool.run(node, [tool.Step("one", 50)])
    assert len(list((tmp_path / "out").glob("node.tar.gz.*"))) > 3
    assert tool.unpack(tmp_path / "out", tmp_path / "back") == 0
    assert (tmp_path / "back" / "reports" / "one-1.md").read_text() == (ran / "report.md").read_text()
    assert json.loads((tmp_path / "back" / "summary.json").read_text())["left_out"] == []
    assert tool.unpack(tmp_path / "nowhere", tmp_path / "back") == 2
    assert "no node.tar.gz parts" in capsys.readouterr().err


def test_what_does_not_fit_is_named(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "MOST_BYTES", 10)
    node = node_of(tool, tmp_path, {"one": (0, json.dumps(RESULT), "")})
    ran = tmp_path / "state" / "runs" / "one-1"
    ran.mkdir()
    (ran / "report.md").write_text("x" * 50)
    tool.run(node, [tool.Step("one", 50)])
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["left_out"] == ["reports/one-1.md (0 MB)"]


def test_the_plan_names_bundled_contracts(tool: ModuleType) -> None:
    bundled = {file.stem for file in (FILE.parents[1] / "src/lynxbench/contract/bundled").glob("*.yaml")}
    assert set(tool.PLAN) <= bundled
