"""The samples file: read back exactly, equal bytes for equal samples, refused when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lynxbench.errors import BadResult
from lynxbench.evidence.sample_file import hash_file, read_samples, write_samples
from lynxbench.model.samples import CountedProcess, Iterations, Marks, ProcessSamples


def _process(index: int, rows: int) -> CountedProcess:
    start = np.arange(rows, dtype=np.int64) * 10 + index
    return CountedProcess(
        samples=ProcessSamples(
            process=index,
            precision="int8-weight-only",
            setup_ns=(1, 2),
            compile_ns=None if index % 2 else (2, 5),
            iterations=Iterations(start, start + 3, np.full(rows, 7, dtype=np.int64)),
            marks=Marks(np.repeat(np.arange(rows, dtype=np.int64), 2), np.repeat(start, 2) + 1),
        ),
        phase=np.full(rows, 4, dtype=np.int8),
    )


def test_round_trip(tmp_path: Path) -> None:
    processes = (_process(0, 5), _process(3, 2))
    described = write_samples(tmp_path / "samples.npz", processes)
    assert (described.rows, described.marks) == (7, 14)
    back = read_samples(tmp_path / "samples.npz")
    for one, two in zip(processes, back, strict=True):
        assert one.samples.process == two.samples.process
        assert one.samples.precision == two.samples.precision
        assert one.samples.compile_ns == two.samples.compile_ns
        assert np.array_equal(one.samples.iterations.end_ns, two.samples.iterations.end_ns)
        assert np.array_equal(one.samples.marks.at_ns, two.samples.marks.at_ns)
        assert np.array_equal(one.phase, two.phase)


def test_equal_samples_give_equal_bytes(tmp_path: Path) -> None:
    one = write_samples(tmp_path / "one.npz", (_process(0, 4),))
    two = write_samples(tmp_path / "two.npz", (_process(0, 4),))
    assert one.sha256 == two.sha256 == hash_file(tmp_path / "two.npz")
    assert write_samples(tmp_path / "three.npz", (_process(0, 5),)).sha256 != one.sha256


def test_plain_numpy_reads_it(tmp_path: Path) -> None:
    write_samples(tmp_path / "samples.npz", (_process(1, 3),))
    with np.load(tmp_path / "samples.npz") as columns:
        assert columns["start_ns"].tolist() == [1, 11, 21]
        assert columns["process_precision"].tolist() == ["int8-weight-only"]


def test_no_samples_at_all(tmp_path: Path) -> None:
    assert write_samples(tmp_path / "samples.npz", ()).rows == 0
    assert read_samples(tmp_path / "samples.npz") == ()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "other columns", "ragged", "pickle", "missing"])
def test_damage_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    write_samples(path, (_process(0, 50),))
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("start_ns,end_ns\n1,2\n")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "other columns":
        np.savez(path, a=np.arange(3))
    elif damage == "ragged":
        with np.load(path) as columns:
            kept = {name: columns[name] for name in columns.files}
        kept["units"] = kept["units"][:-1]
        np.savez(path, **kept)
    elif damage == "pickle":
        with np.load(path) as columns:
            kept = {name: columns[name] for name in columns.files}
        kept["units"] = np.array([{"a": 1}] * 50, dtype=object)
        np.savez(path, **kept)
    else:
        path.unlink()
    with pytest.raises(BadResult) as caught:
        read_samples(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
