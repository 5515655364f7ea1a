"""`steady` and `changepoints` as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from lynxbench.cli.series_command import _percent, changepoints, steady
from lynxbench.errors import BadSeries
from lynxbench.model.interval import Interval
from lynxbench.model.plain_numbers import plain

DATA = Path(__file__).parents[2] / "data" / "sustained" / "iterations.csv"
app = typer.Typer()
app.command()(steady)
app.command()(changepoints)
runner = CliRunner()


def write(path: Path, values: np.ndarray) -> str:
    path.write_text(json.dumps(values.tolist()))
    return str(path)


def test_steady_json() -> None:
    result = runner.invoke(app, ["steady", str(DATA), "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert (document["verdict"], document["reason"]) == ("steady", "")
    assert document["truncate"] > 0
    assert document["drift"]["low"] <= document["drift"]["estimate"] <= document["drift"]["high"]
    assert document["sustained_under_burst"] == pytest.approx(0.14, abs=0.01)
    assert [group["group"] for group in document["groups"]] == ["phase=gemm_bf16_cold_start", "phase=copy_cold_start"]


def test_steady_text_has_the_verdict_first() -> None:
    result = runner.invoke(app, ["steady", str(DATA)])
    assert result.stdout.startswith("steady\n")
    assert "13.4% under it" in result.stdout
    assert "2 groups by phase" in result.stdout


def test_a_verdict_of_no_is_exit_code_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    moving = write(tmp_path / "m.json", 1 + 0.1 * np.arange(200) / 200 + 0.002 * rng.standard_normal(200))
    result = runner.invoke(app, ["steady", moving])
    assert result.exit_code == 1
    assert result.stdout.startswith("not steady (")
    short = runner.invoke(app, ["steady", write(tmp_path / "s.json", np.ones(5)), "--json"])
    assert short.exit_code == 1
    document = json.loads(short.stdout)
    assert (document["verdict"], document["reason"]) == ("inconclusive", "too short")
    assert document["drift"] == {"low": None, "estimate": None, "high": None}


def test_the_bound_is_an_option(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    file = write(tmp_path / "d.json", 1 + 0.02 * np.arange(200) / 200 + 0.002 * rng.standard_normal(200))
    assert runner.invoke(app, ["steady", file]).exit_code == 1
    assert runner.invoke(app, ["steady", file, "--drift", "5 %"]).exit_code == 0


@pytest.mark.parametrize(
    "arguments", [["--drift", "5"], ["--drift", "0 %"], ["--drift", "x"], ["--window", "0 s"], ["--column", "nope"]]
)
def test_bad_usage_is_one_error(arguments: list[str]) -> None:
    result = runner.invoke(app, ["steady", str(DATA), *arguments])
    assert isinstance(result.exception, BadSeries)
    assert "\n" not in str(result.exception)


def test_changepoints(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    file = write(tmp_path / "c.json", 100 + 10 * (np.arange(100) >= 60) + rng.standard_normal(100))
    document = json.loads(runner.invoke(app, ["changepoints", file, "--json"]).stdout)
    (point,) = document["points"]
    assert abs(point["index"] - 60) <= 1
    assert point["change"] == pytest.approx(0.1, abs=0.02)
    assert 0 <= point["p"] < 1e-6
    text = runner.invoke(app, ["changepoints", file])
    assert text.exit_code == 0
    assert text.stdout.startswith("1 change: value, 100 rows\n")


def test_a_drift_is_no_change_and_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    file = write(tmp_path / "s.json", np.linspace(100, 90, 200) + rng.standard_normal(200))
    document = json.loads(runner.invoke(app, ["changepoints", file, "--json"]).stdout)
    assert document["points"] == []
    assert document["motion"] == document["groups"][0]["motion"] == "drift"
    assert document["trend"]["low"] < 0.9 < document["trend"]["high"]
    text = runner.invoke(app, ["changepoints", file]).stdout
    assert text.startswith("no change: value, 200 rows\n  drift")
    assert "in no step" in text


def test_no_change_from_zero_is_null_not_nan(tmp_path: Path) -> None:
    file = write(tmp_path / "z.json", np.repeat([0.0, 1.0], 20))
    document = json.loads(runner.invoke(app, ["changepoints", file, "--json"]).stdout)
    assert document["points"][0]["change"] is None
    assert runner.invoke(app, ["changepoints", write(tmp_path / "f.json", np.ones(40))]).stdout.startswith("no change")


def test_the_module_imports_nothing_heavy() -> None:
    code = "import sys, lynxbench.cli.series_command; sys.exit(any(m in sys.modules for m in ('torch', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_times_that_run_backwards_are_said(tmp_path: Path) -> None:
    """Found: rows out of order hid a drift of 3 %, and `steady` said nothing of their order."""
    rng = np.random.default_rng(5)
    rows = [f"{i},{100 + 3 * i / 2000 + rng.normal(0, 0.5)}" for i in range(2000)]
    text = {"sorted": rows, "mixed": [rows[i] for i in rng.permutation(2000)]}
    for name, lines in text.items():
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(["t,throughput", *lines]))
        for command in ("steady", "changepoints"):
            said = runner.invoke(app, [command, str(file)]).output
            assert ("t runs backwards" in said) == (name == "mixed")
            assert ("sort them by t, or where they are several series, keep one" in said) == (name == "mixed")
            document = json.loads(runner.invoke(app, [command, str(file), "--json"]).stdout)
            assert document["times_run_backwards"] is (name == "mixed")


def test_too_few_rows_are_no_history_without_a_change(tmp_path: Path) -> None:
    """Found: three rows, of which nothing can be said, had `no change`."""
    for many in (3, 15, 16):
        file = write(tmp_path / "few.json", np.r_[np.ones(many // 2), 2 * np.ones(many - many // 2)])
        said = runner.invoke(app, ["changepoints", file]).stdout
        assert said.startswith("1 change" if many == 16 else f"{many} of 16 rows: too few to tell")
        document = json.loads(runner.invoke(app, ["changepoints", file, "--json"]).stdout)
        assert document["too_few"] is (many < 16)


def test_numbers_that_cannot_be_squared_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "huge.json", np.r_[np.full(30, 1e307), np.full(30, 1.5e308)])
    for command in ("steady", "changepoints"):
        with pytest.raises(BadSeries, match="row 1 holds 1e\\+307; no unit makes that a figure"):
            runner.invoke(app, [command, file], catch_exceptions=False)


def test_rows_out_of_order_are_never_called_steady(tmp_path: Path) -> None:
    """A drift of 0.5 % of which rows in any order show nothing, and rows that stand newest first."""
    rng = np.random.default_rng(6)
    rows = [f"{i},{100 + 3 * i / 9000 + rng.normal(0, 0.3)}" for i in range(9000)]
    flat = [f"{i},{100 + rng.normal(0, 0.3)}" for i in range(9000)]
    for lines in ([rows[i] for i in rng.permutation(9000)], flat[::-1]):
        file = tmp_path / "rows.csv"
        file.write_text("\n".join(["t,throughput", *lines]))
        done = runner.invoke(app, ["steady", str(file), "--drift", "2 %"])
        assert done.exit_code == 1
        assert done.stdout.startswith("inconclusive (order): the rows are not in the order of their times")
        document = json.loads(runner.invoke(app, ["steady", str(file), "--json"]).stdout)
        assert (document["verdict"], document["reason"]) == ("inconclusive", "order")
        with pytest.raises(BadSeries, match="sort the file by its time column"):
            runner.invoke(app, ["steady", str(file), "--window", "5 s"], catch_exceptions=False)
    in_order = tmp_path / "in-order.csv"
    in_order.write_text("\n".join(["t,throughput", *flat]))
    assert runner.invoke(app, ["steady", str(in_order), "--drift", "2 %"]).exit_code == 0


def test_no_zero_is_negative() -> None:
    assert _percent(Interval(-0.00001, 0.001, 0.002)) == "+0.10% [+0.00%, +0.20%]"
    assert plain(-0.0) == "0"
