"""Result documents: one clear line for everything that is not one, and no id that does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lynxbench.errors import BadResult
from lynxbench.evidence.documents import check_samples, read_result, write_result
from lynxbench.evidence.whole_files import write_text
from lynxbench.model.result import Result


def _edited(change: Callable[[dict[str, object]], object]) -> Callable[[bytes], bytes]:
    def apply(data: bytes) -> bytes:
        document = json.loads(data)
        change(document)
        return json.dumps(document).encode()

    return apply


def _inside(document: dict[str, object], *path: str | int) -> dict[str, object]:
    value: object = document
    for part in path:
        value = value[part]  # type: ignore[index]
    assert isinstance(value, dict)
    return value


MALFORMED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "blank": lambda _: b"  \n",
    "binary": lambda _: bytes(range(256)),
    "not utf-8": lambda data: data.replace(b"spin", b"\xff\xfe", 1),
    "truncated": lambda data: data[: len(data) // 2],
    "trailing text": lambda data: data + b"and more",
    "a list": lambda _: b"[1, 2]",
    "a number": lambda _: b"7",
    "null": lambda _: b"null",
    "nested too deeply": lambda _: b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "duplicate key": lambda data: data.replace(b"{", b'{"run_id": "x", "run_id": "y",', 1),
    "NaN": lambda data: data.replace(b'"measuring_s":', b'"measuring_s": NaN, "x":', 1),
    "a huge integer": lambda data: data.replace(b'"schema_version": 1', b'"schema_version": ' + b"9" * 6000, 1),
    "unknown key": _edited(lambda d: d.update(extra=1)),
    "missing key": _edited(lambda d: d.pop("contract")),
    "a later schema": _edited(lambda d: d.update(schema_version=99)),
    "wrong type": _edited(lambda d: d.update(per_precision="fast")),
    "text for a number": _edited(lambda d: d.update(measuring_s="7")),
    "unknown precision": _edited(lambda d: _inside(d, "per_precision", 0).update(precision="fp7")),
    "unknown verdict": _edited(lambda d: _inside(d, "validity").update(verdict="splendid")),
    "samples hash is no hash": _edited(lambda d: _inside(d, "samples").update(sha256="abc")),
    "figure changed after sealing": _edited(lambda d: _inside(d, "per_precision", 0, "peak").update(estimate=1e9)),
    "other id": _edited(lambda d: d.update(result_id="0" * 64)),
    "contract changed": _edited(lambda d: _inside(d, "contract").update(question="Another question?")),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_result_gives_one_clear_line(case: str, spin_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(MALFORMED[case]((spin_run / "result.json").read_bytes()))
    with pytest.raises(BadResult) as caught:
        read_result(path)
    line = str(caught.value)
    assert "\n" not in line
    assert str(path) in line
    assert len(line) < 500


def test_a_missing_file_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match="give a result document or its folder"):
        read_result(tmp_path / "nothing.json")


def test_a_result_survives_the_trip_to_disk(spin_run: Path, tmp_path: Path) -> None:
    result = read_result(spin_run)
    write_result(tmp_path / "again.json", result)
    assert read_result(tmp_path / "again.json") == result
    assert (tmp_path / "again.json").read_bytes() == (spin_run / "result.json").read_bytes()


def test_the_id_covers_every_figure(spin_run: Path) -> None:
    result = read_result(spin_run)
    other = result.model_copy(update={"measuring_s": result.measuring_s + 1})
    assert other.computed_id() != result.result_id
    assert isinstance(other.sealed(), Result)
    assert other.sealed().result_id == other.computed_id()


def test_samples_must_be_the_ones_the_result_names(spin_run: Path, tmp_path: Path) -> None:
    result = read_result(spin_run)
    assert check_samples(result, spin_run) == spin_run / "samples.npz"
    with pytest.raises(BadResult, match="missing"):
        check_samples(result, tmp_path)
    (tmp_path / "samples.npz").write_bytes(b"other")
    with pytest.raises(BadResult, match="is not the"):
        check_samples(result, tmp_path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "one")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "two \ud800")
    assert path.read_text() == "one"
