"""`lynxbench executor` as a person and as a program call it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lynxbench.cli.executor_command import app
from lynxbench.errors import BadInput, BadResult

RUN = CliRunner()


def capture(file: Path) -> dict[str, object]:
    done = RUN.invoke(app, ["--json"])
    assert done.exit_code == 0, done.output
    file.write_text(done.stdout)
    document: dict[str, object] = json.loads(done.stdout)
    return document


def test_json_is_one_document_within_three_seconds_and_without_torch() -> None:
    code = (
        "import sys, atexit\n"
        "heavy = ('torch', 'numpy', 'scipy')\n"
        "atexit.register(lambda: print([m for m in heavy if m in sys.modules], file=sys.stderr))\n"
        "from lynxbench.cli.executor_command import app\n"
        "app(['--json'])\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1800, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time: what others do to the machine meanwhile is not ours.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3
    assert done.stderr.strip() == "[]"
    document = json.loads(done.stdout)
    assert {"executor_id", "instance_id", "layers", "compatibility", "conditions", "precisions"} <= set(document)
    assert len(document["layers"]) == 9


def test_show_and_default_are_the_same(tmp_path: Path) -> None:
    first = capture(tmp_path / "a.json")
    done = RUN.invoke(app, ["show", "--json"])
    assert json.loads(done.stdout)["executor_id"] == first["executor_id"]
    text = RUN.invoke(app, ["show"]).stdout
    assert "ACCELERATOR" in text
    assert "owner: hardware engineering" in text
    assert "precisions" in text


def test_diff_of_one_machine_with_itself_is_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    capture(file)
    done = RUN.invoke(app, ["diff", str(file), "here"])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"no difference between {file} and here\n"


def test_diff_names_the_layer_and_exits_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    capture(file)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    done = RUN.invoke(app, ["diff", str(file), "here"])
    assert done.exit_code == 1
    assert "SYSTEM" in done.stdout
    assert ["environment.OMP_NUM_THREADS", "1", "2", "configuration"] in [
        line.split() for line in done.stdout.splitlines()
    ]
    told = RUN.invoke(app, ["diff", str(file), "--json"])
    assert told.exit_code == 1
    document = json.loads(told.stdout)
    assert document["same"] is False
    assert document["layers"] == ["system"]
    assert document["changes"][0]["owner"] == "infrastructure SRE"
    assert document["changes"][0]["items"] == ["environment.OMP_NUM_THREADS"]


def test_diff_of_all_tiers_shows_state(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    capture(file)
    done = RUN.invoke(app, ["diff", str(file), "here", "--all-tiers"])
    assert done.exit_code == 1
    assert "uptime_s" in done.stdout


def test_declarations_join_and_a_price_shows_in_the_difference(tmp_path: Path) -> None:
    site, file = tmp_path / "site.yaml", tmp_path / "a.json"
    site.write_text("lynxbench: 1\nprocurement: {price: 9000, currency: EUR}\n")
    capture(file)
    done = RUN.invoke(app, ["--json", "--declare", str(site)])
    price = json.loads(done.stdout)["layers"]["procurement"]["price"]
    assert price == {"value": 9000.0, "source": "declared in site.yaml", "status": "declared", "tier": "state"}
    differs = RUN.invoke(app, ["diff", str(file), "here", "--declare", str(site)])
    assert differs.exit_code == 1
    assert "PROCUREMENT" in differs.stdout


def test_bad_files_raise_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("{")
    assert isinstance(RUN.invoke(app, ["diff", str(bad)]).exception, BadResult)
    assert isinstance(RUN.invoke(app, ["--declare", str(bad)]).exception, BadInput)
    assert RUN.invoke(app, ["diff"]).exit_code == 2
