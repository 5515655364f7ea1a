"""Every timed sample of a run in one columnar file that plain numpy reads, identified by its SHA-256."""

import hashlib
import io
import os
import zipfile
from pathlib import Path

import numpy as np

from lynxbench.errors import BadResult
from lynxbench.evidence.array_file import Column, read_arrays
from lynxbench.evidence.whole_files import written_whole
from lynxbench.model.result import SamplesFile
from lynxbench.model.samples import CountedProcess, Iterations, Marks, ProcessSamples
from lynxbench.plain_files import LARGEST_EVIDENCE_BYTES, open_plain

_ITERATION_COLUMNS = ("process", "start_ns", "end_ns", "units", "phase")
_MARK_COLUMNS = ("mark_process", "mark_iteration", "mark_ns")
_PROCESS_COLUMNS = ("process_index", "process_precision", "process_setup_ns", "process_compile_ns")
COLUMNS = (*_ITERATION_COLUMNS, *_MARK_COLUMNS, *_PROCESS_COLUMNS)
_SPAN_COLUMNS = ("process_setup_ns", "process_compile_ns")

MAX_BYTES = LARGEST_EVIDENCE_BYTES
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip entry can carry: equal samples give equal bytes


def write_samples(path: Path, processes: tuple[CountedProcess, ...]) -> SamplesFile:
    """Write the columns as an uncompressed .npz whose bytes depend on the samples alone."""
    data = encode_samples(processes)
    with written_whole(path) as stream:
        stream.write(data)
    return SamplesFile(
        file=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        rows=sum(len(process.samples.iterations) for process in processes),
        marks=sum(len(process.samples.marks.at_ns) for process in processes),
    )


def encode_samples(processes: tuple[CountedProcess, ...]) -> bytes:
    """The bytes of a samples file: equal samples give equal bytes."""
    columns = _columns_of(processes)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in COLUMNS:
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, columns[name], allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", date_time=_EPOCH), buffer.getvalue())
    return file.getvalue()


def read_samples(path: Path) -> tuple[CountedProcess, ...]:
    """The samples of a run; BadResult where the file is not one."""
    columns = read_arrays(path)
    for name in COLUMNS:
        if name not in columns:
            raise BadResult(f"{path}: column {name!r} is missing; not a samples file of lynxbench")
        kinds, beside = "U" if name == "process_precision" else "iu", (2,) if name in _SPAN_COLUMNS else ()
        if columns[name].dtype.kind not in kinds or columns[name].ndim == 0 or columns[name].shape[1:] != beside:
            raise BadResult(f"{path}: column {name!r} is of another kind; not a samples file of lynxbench")
    return _processes_of(columns, path)


def hash_file(path: Path) -> str:
    """SHA-256 of a plain file's bytes, in hex; BadResult where it is none, or larger than any file of a run."""
    try:
        with open_plain(path) as stream:
            if os.fstat(stream.fileno()).st_size > MAX_BYTES:
                raise BadResult(f"{path}: larger than {MAX_BYTES >> 30} GiB; no file of a run")
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadResult(f"{path}: {error.strerror or error}") from error


def _columns_of(processes: tuple[CountedProcess, ...]) -> dict[str, Column]:
    def joined(parts: list[Column], dtype: str) -> Column:
        return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)

    rows = [(process.samples, process.phase) for process in processes]
    return {
        "process": joined([np.full(len(s.iterations), s.process) for s, _ in rows], "<i4"),
        "start_ns": joined([s.iterations.start_ns for s, _ in rows], "<i8"),
        "end_ns": joined([s.iterations.end_ns for s, _ in rows], "<i8"),
        "units": joined([s.iterations.units for s, _ in rows], "<i8"),
        "phase": joined([phase for _, phase in rows], "<i1"),
        "mark_process": joined([np.full(len(s.marks.at_ns), s.process) for s, _ in rows], "<i4"),
        "mark_iteration": joined([s.marks.iteration for s, _ in rows], "<i8"),
        "mark_ns": joined([s.marks.at_ns for s, _ in rows], "<i8"),
        "process_index": np.array([s.process for s, _ in rows], dtype="<i4"),
        "process_precision": np.array([s.precision for s, _ in rows], dtype="<U20"),
        "process_setup_ns": np.array([s.setup_ns for s, _ in rows], dtype="<i8").reshape(-1, 2),
        "process_compile_ns": np.array([s.compile_ns or (0, 0) for s, _ in rows], dtype="<i8").reshape(-1, 2),
    }


def _processes_of(columns: dict[str, Column], path: Path) -> tuple[CountedProcess, ...]:
    for group in (_ITERATION_COLUMNS, _MARK_COLUMNS, _PROCESS_COLUMNS):
        if len({len(columns[name]) for name in group}) != 1:
            raise BadResult(f"{path}: columns {', '.join(group)} differ in length; the file is damaged")
    processes = []
    for row, index in enumerate(columns["process_index"].tolist()):
        mine, marked = columns["process"] == index, columns["mark_process"] == index
        setup, compiled = columns["process_setup_ns"][row].tolist(), columns["process_compile_ns"][row].tolist()
        processes.append(
            CountedProcess(
                samples=ProcessSamples(
                    process=index,
                    precision=str(columns["process_precision"][row]),
                    setup_ns=(setup[0], setup[1]),
                    compile_ns=(compiled[0], compiled[1]) if any(compiled) else None,
                    iterations=Iterations(
                        columns["start_ns"][mine].astype(np.int64),
                        columns["end_ns"][mine].astype(np.int64),
                        columns["units"][mine].astype(np.int64),
                    ),
                    marks=Marks(
                        columns["mark_iteration"][marked].astype(np.int64), columns["mark_ns"][marked].astype(np.int64)
                    ),
                ),
                phase=columns["phase"][mine].astype(np.int8),
            )
        )
    return tuple(processes)
