"""Arrays whose heads lie: none takes memory that the file does not hold, each ends in one line."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lynxbench.errors import BadResult
from lynxbench.evidence.array_file import _plain_column, read_arrays
from lynxbench.evidence.sample_file import COLUMNS, encode_samples, read_samples


def headed(head: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = head.encode("latin1")
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


def archive_of(path: Path, members: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


HUGE = "{'descr': '<i8', 'fortran_order': False, 'shape': (4000000000000,), }"


@pytest.mark.parametrize(
    "data",
    [
        headed(HUGE),
        headed(HUGE, bytes(64)),
        headed(HUGE, version=(2, 0)),
        headed("{'descr': '<i8', 'fortran_order': False, 'shape': (2000000, 2000000), }"),
        headed("{'descr': '<i8', 'fortran_order': False, 'shape': (-4, -2), }", bytes(64)),
        headed("{'descr': '|V0', 'fortran_order': False, 'shape': (4000000000000,), }"),
        headed("{'descr': '<U0', 'fortran_order': False, 'shape': (4000000000000,), }"),
        headed("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n(S'true'\ntR."),
        headed("{'descr': '<i8', 'fortran_order': False, 'shape': 'all', }"),
        headed("{'descr': [('a', '<i8', 99999999999)], 'fortran_order': False, 'shape': (1,), }"),
        headed("{" * 3000),
        headed("(" * 9000),
        headed("'''"),
        b"\x93NUMPY\x09\x00",
        b"\x93NUMPY",
        b"",
        b"no array",
    ],
)
def test_a_head_that_claims_what_is_not_there_is_one_line(data: bytes, tmp_path: Path) -> None:
    path = archive_of(tmp_path / "samples.npz", {"process.npy": data})
    with pytest.raises(BadResult) as refused:
        read_arrays(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("column", COLUMNS)
def test_samples_with_one_such_column_are_one_line(column: str, tmp_path: Path) -> None:
    members = {}
    with zipfile.ZipFile(io.BytesIO(encode_samples(()))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for changed in (headed(HUGE), _stored(np.array([1.5])), _stored(np.zeros((1, 1), np.int64)), _stored(np.array(3))):
        path = archive_of(tmp_path / "samples.npz", {**members, f"{column}.npy": changed})
        with pytest.raises(BadResult):
            read_samples(path)


def test_a_packed_archive_is_not_unfolded(tmp_path: Path) -> None:
    bomb = archive_of(tmp_path / "bomb.npz", {"a.npy": _stored(np.zeros(1 << 22))}, zipfile.ZIP_DEFLATED)
    with pytest.raises(BadResult, match="unfolds"):
        read_arrays(bomb)


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", _stored(np.array([1])))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", _stored(np.array([2])))
    with pytest.raises(BadResult):
        read_arrays(path)


def test_what_numpy_wrote_is_read_as_it_was(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6).reshape(2, 3), "f": np.asfortranarray(np.eye(3)), "e": np.array([])}
    arrays["s"] = np.array("words")
    np.savez(tmp_path / "x.npz", **arrays)
    found = read_arrays(tmp_path / "x.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


@pytest.mark.parametrize(
    "array",
    [
        *(np.arange(5), np.arange(6).reshape(3, 2), np.zeros(3, "<i1"), np.array([-0.0, np.nan, np.inf])),
        *(np.array(["fp32", "é"], dtype="<U20"), np.arange(3, dtype="<u2"), np.ones((1, 3)), np.float32([1.5])),
    ],
)
def test_the_head_of_a_plain_column_is_read_as_bytes(array: np.ndarray) -> None:  # type: ignore[type-arg]
    data = _stored(array)
    column = _plain_column(data)
    assert column is not None
    np.testing.assert_array_equal(column, array)
    assert (column.dtype, column.shape, column.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert column.flags.aligned
    assert column.flags.writeable
    for changed in (data[:-1], data + b"\0", data.replace(b"(", b"(9", 1), data[:8] + b"\1" + data[9:]):
        assert _plain_column(changed) is None


@pytest.mark.parametrize(
    "array",
    [
        *(np.zeros((0, 2)), np.zeros(0), np.zeros(3, ">i4"), np.zeros(2, bool), np.zeros((2, 2, 2)), np.array(3)),
        *(np.asfortranarray(np.eye(3)), np.zeros(2, [("a", "<i4")]), np.array(["2026"], "datetime64[D]")),
    ],
)
def test_other_heads_are_read_by_numpy(array: np.ndarray) -> None:  # type: ignore[type-arg]
    assert _plain_column(_stored(array)) is None


def _stored(array: np.ndarray) -> bytes:  # type: ignore[type-arg]
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()
