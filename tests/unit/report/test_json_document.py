"""The JSON document other programs rely on."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

from lynxbench.model.result import Result
from lynxbench.report.documents.record_sections import VERIFY
from lynxbench.report.json_document import render_json


def test_the_promised_keys_are_there(build) -> None:
    document = json.loads(render_json(build.software_bound().result))
    assert {"contract_id", "executor_id", "result_id", "per_precision", "attribution", "validity"} <= document.keys()
    first = document["per_precision"][0]
    assert {
        "precision",
        "throughput",
        "latency_ms",
        "peak",
        "sustained",
        "steady",
        "accuracy",
        "native",
        "validity",
    } <= set(first)
    assert first["throughput"] == {"low": 18.599999999999998, "estimate": 18.9, "high": 19.2, "unit": "token/s"}
    assert {"verdict", "counted_s", "excluded"} <= first["steady"].keys()
    assert {"bottleneck", "bound", "layer", "owner", "shares", "gain_if_removed", "evidence"} <= document[
        "attribution"
    ].keys()
    assert document["attribution"]["gain_if_removed"] == {"low": 1.5, "estimate": 1.7, "high": 1.9}


def test_nan_is_null(build, shape: str) -> None:
    text = render_json(build.SHAPES[shape]().result)
    json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(AssertionError(name)))


def test_unknown_gain_is_null(build) -> None:
    document = json.loads(render_json(build.all_unknown().result))
    assert document["attribution"]["gain_if_removed"] == {"low": None, "estimate": None, "high": None}


def test_it_is_one_document_that_reads_back_to_the_same_id(build) -> None:
    result = build.software_bound().result.sealed()
    text = render_json(result)
    assert text.endswith("}\n")
    back = Result.model_validate_json(text)
    assert back.computed_id() == result.result_id


def test_the_command_that_the_report_prints_verifies_the_document(build, tmp_path) -> None:
    file = tmp_path / "result.json"
    file.write_text(render_json(build.all_unknown().result.sealed()), encoding="utf-8")
    command = shlex.split(VERIFY)
    assert command[0] == "python"
    for text, answer in (
        (file.read_text(encoding="utf-8"), "True"),
        (file.read_text().replace("15.21", "9.99"), "False"),
    ):
        file.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, *command[1:-1], str(file)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == answer
