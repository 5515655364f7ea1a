"""A run's hardware asked to vouch for it, before the first sample, with a nonce of its registration."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lynxbench.evidence.documents import read_document
from lynxbench.evidence.hardware_reports import (
    ATTESTATION_FILE,
    ATTESTATION_FOLDER,
    AttestationRecord,
    attestation_nonce,
)
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.whole_files import write_text, written_whole
from lynxbench.executor.hardware_roots import RootAnswers, ask_roots
from lynxbench.model.executor import Executor


def attest(run: RunFolder, ask: Callable[[bytes], RootAnswers] = ask_roots) -> None:
    """Keep what the hardware answers; a run without it, or on a full disk, goes on without it."""
    registration = run.registration
    with suppress(Exception):
        answers = ask(attestation_nonce(registration.run_id, registration.nonce))
        if not answers.record.fields:
            return
        folder = run.path / ATTESTATION_FOLDER
        folder.mkdir()
        for name, data in answers.files.items():
            with written_whole(folder / name) as stream:
                stream.write(data)
        write_text(folder / ATTESTATION_FILE, answers.record.model_dump_json(indent=1))  # last: it names whole files


def with_attestation(executor: Executor, folder: Path) -> Executor:
    """The executor with what its hardware answered for the run in this folder, where it was asked."""
    file = folder / ATTESTATION_FOLDER / ATTESTATION_FILE
    if not file.is_file():
        return executor
    return executor.merged(read_document(file, AttestationRecord, "not an attestation").fields)
