"""Executor documents: written, read back, and refused when malformed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lynxbench.errors import BadInput, BadResult
from lynxbench.executor.capture import capture_host
from lynxbench.executor.executor_document import executor_document, parse_executor, read_executor
from lynxbench.executor.host import Host
from lynxbench.model.executor import Executor


@pytest.fixture
def taken(make_host: Callable[..., Host], fake_nvml: Callable[..., Any]) -> Executor:
    return capture_host(host=make_host(), nvml=fake_nvml, plugins=())


def test_written_and_read_back(taken: Executor, tmp_path: Path) -> None:
    document = executor_document(taken)
    assert document["executor_id"] == taken.executor_id
    file = tmp_path / "a.json"
    file.write_text(json.dumps(document))
    assert read_executor(file) == taken
    file.write_text(
        json.dumps({"result_id": "x", "executor_id": taken.executor_id, "executor": taken.model_dump(mode="json")})
    )
    assert read_executor(file) == taken


def test_a_changed_field_breaks_the_id(taken: Executor) -> None:
    document = json.loads(json.dumps(executor_document(taken)))
    document["layers"]["system"]["kernel"]["value"] = "6.0"
    with pytest.raises(BadResult, match=r"executor_id is not the hash of its fields .* the file was changed"):
        parse_executor(json.dumps(document), "a.json")


FIELD = '{"value": 1, "source": "s", "status": "measured", "tier": "configuration"}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.json:1: not JSON"),
        ("{", "a.json:1: not JSON"),
        ("[]", "must be a JSON object"),
        ("3", "must be a JSON object"),
        ("{}", "holds no executor"),
        ('{"executor": 3}', "holds no executor"),
        ('{"layers": 3}', "executor.layers: "),
        ('{"layers": {"warp": {}}}', "executor.layers.warp: "),
        ('{"layers": {"system": {"x": 1}}}', "executor.layers.system.x: "),
        ('{"layers": {"system": {"x": {"value": 1}}}}', "executor.layers.system.x.source: Field required"),
        (
            '{"layers": {"system": {"x": ' + FIELD.replace("measured", "guessed") + "}}}",
            "executor.layers.system.x.status: ",
        ),
        ('{"layers": {"system": {"x": ' + FIELD.replace("}", ', "y": 1}') + "}}}", "executor.layers.system.x.y: Extra"),
        ('{"layers": {"system": {"x": ' + FIELD.replace("1", "NaN") + "}}}", "NaN is not JSON"),
        ('{"layers": {"system": {"x": ' + FIELD.replace("1", "99999999999999999999") + "}}}", "a.json: executor"),
        ('{"layers": {}, "layers": {}}', "key 'layers' is written twice"),
        ('{"schema_version": 9, "layers": {}}', "executor schema 9; this program reads 1"),
        ('{"schema_version": true, "layers": {}}', "executor schema True"),
        ('{"layers": {}, "executor_id": "abc"}', "executor_id is not the hash"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_malformed_documents_give_one_line(text: str, said: str) -> None:
    with pytest.raises(BadResult) as caught:
        parse_executor(text, "a.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a folder; name an executor or result document in it"):
        read_executor(tmp_path)
    (tmp_path / "b").write_bytes(b"\xff\xff")
    with pytest.raises(BadInput, match="not UTF-8"):
        read_executor(tmp_path / "b")
