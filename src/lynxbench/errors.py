"""Every error lynxbench raises on purpose, and the exit code each one ends in.

Only ``cli/`` exits. Everywhere else an error is raised with one line: what is wrong, where, and what would be right.

    LynxbenchError                     2
    ├── BadInput                       2   a file, option or value is wrong
    │   ├── BadFile                    2   … in a file that a person wrote (carries file, line and key)
    │   ├── BadQuantity                2   … in a number with its unit
    │   ├── BadResult                  2   … in a result document or its samples
    │   ├── BadSeries                  2   … in a series given to `steady` or `changepoints`
    │   ├── BadLedger                  2   … a ledger that cannot be reached, read or written
    │   ├── KeyNotReady                2   … which key signs is not settled, or it cannot be opened
    │   └── NotFound                   2   … the name of something that is not there
    ├── Refused                        3   the answer would be unsound, so none is given
    ├── CannotRun                      4   this executor cannot run this contract
    │   ├── OwnCodeFailed              2   … no: the user's own function is not there, or failed
    │   ├── DiskFull                   2   … no: there was no room to write what was measured
    │   └── HalfCannotRun              4   … of two that are measured in pairs, one cannot be
    ├── EvidenceInvalid                5   evidence does not verify
    └── Interrupted                  130   stopped by the user; state kept, resumable
"""

import errno
from enum import IntEnum
from pathlib import Path
from typing import Self

from lynxbench.visible import visible_line


class ExitCode(IntEnum):
    """What a process exit means; documented in docs/reference/exit-codes.md."""

    DONE = 0
    VERDICT_NO = 1
    BAD_INPUT = 2
    REFUSED = 3
    CANNOT_RUN = 4
    EVIDENCE_INVALID = 5
    UNPROVEN = 6
    CANNOT_VERIFY = 7
    INTERRUPTED = 130


class LynxbenchError(Exception):
    """One line: what is wrong, where, what to do. What it quotes cannot drive a terminal."""

    exit_code: ExitCode = ExitCode.BAD_INPUT

    def __init__(self, line: str = "") -> None:
        super().__init__(visible_line(line))


class BadInput(LynxbenchError):
    """A file, option or value that cannot be used as it is."""


class BadFile(BadInput):
    """A contract, site file, experiment, plan or catalogue that is not one: file, line, key, what would be right."""

    def __init__(self, problem: str, *, file: str, line: int | None = None, key: str = "") -> None:
        self.problem = problem
        self.file = file
        self.line = line
        self.key = key
        where = f"{file}:{line}" if line is not None else file
        named = f" {key}:" if key else ""
        super().__init__(f"{where}:{named} {problem}")


class BadQuantity(BadInput, ValueError):
    """A number whose unit is missing, unknown or of another kind; a ValueError too, so that validators pass it on."""


class BadResult(BadInput):
    """A result document, or its samples, that cannot be read or does not fit together."""


class BadSeries(BadInput):
    """A series that has no usable numbers."""


class BadLedger(BadInput):
    """A ledger that cannot be reached, read or written; what it acknowledged is not touched."""


class KeyNotReady(BadInput):
    """Several keys and none chosen, or one that is not there or does not open: said before anything is measured."""


class NotFound(BadInput):
    """Something is asked for by a name that nothing has."""


class Refused(LynxbenchError):
    """The question has no sound answer, so none is given."""

    exit_code = ExitCode.REFUSED


class CannotRun(LynxbenchError):
    """The contract is sound, but this executor lacks what it needs."""

    exit_code = ExitCode.CANNOT_RUN


class OwnCodeFailed(CannotRun):
    """The user's own function is not there, is none, or raised: theirs to mend, and not the executor's."""

    exit_code = ExitCode.BAD_INPUT


class DiskFull(CannotRun):
    """There is no room left to write what is measured."""

    exit_code = ExitCode.BAD_INPUT


class HalfCannotRun(CannotRun):
    """One of two settings that are measured in pairs gives nothing; `half` says which."""

    def __init__(self, half: str, why: str) -> None:
        self.half, self.why = half, why
        super().__init__(f"{half}: nothing could be measured here: {why}")


class EvidenceInvalid(LynxbenchError):
    """Evidence whose bytes, hashes or signatures do not hold."""

    exit_code = ExitCode.EVIDENCE_INVALID


class NewerEntry(EvidenceInvalid):
    """An entry of a kind that this version does not know: whole, and of a version that came later."""


class Interrupted(LynxbenchError):
    """Stopped by the user. What was measured is kept and `run --resume` goes on from there."""

    exit_code = ExitCode.INTERRUPTED

    @classmethod
    def while_kept_in(cls, folder: Path) -> Self:
        """An experiment or a tuning that was stopped."""
        return cls(f"interrupted; what was measured is kept in {folder}. Go on with the same command and --resume")


def is_disk_full(error: BaseException) -> bool:
    """Whether an error says that there is no room left, on the disk or for this user."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def first_line(error: BaseException) -> str:
    """What an error of another library says first, for a message of one line; its class where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
