"""The process that computes results again for a server: `python -m lynxbench.server.recompute_worker`.

It reads files that strangers sent, so it is bounded in memory, time and disk, runs after everything else, and may die
of what it reads: whoever serves pages goes on, and starts another. It is told on its standard input where the ledger is
and which results to take, and answers each with one line.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from lynxbench.errors import BadLedger, LynxbenchError, NotFound
from lynxbench.evidence.documents import RESULT_FILE
from lynxbench.evidence.manifest import MANIFEST_FILE, parse_manifest
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.queries import find_result
from lynxbench.model.verification import Check, CheckOutcome, VerificationReport
from lynxbench.record.recalling import lay_out
from lynxbench.record.sample_copies import check_own_samples
from lynxbench.record.verifying import verify_folder
from lynxbench.report.words import clean
from lynxbench.run.run_outcome import SAMPLES_FILE
from lynxbench.server.worker_lines import answer_lines
from lynxbench.watch.recomputations import MOST_LINE, MOST_LINES, RecomputationState

LOWEST_PRIORITY = 19
THROUGHPUT, FIGURES, RAW_FILES = " throughput", "figures", "raw files"
"""Lines of `verify` that say whether figures were recomputed at all."""
_NO_MEMORY = re.compile(r"cannot be read \(\w*MemoryError\b")

Outcome = tuple[RecomputationState, list[str]]


def main() -> None:
    """Answer every result that is asked for, until nobody asks any more."""
    answer_lines(_answer, LOWEST_PRIORITY, unseen=True)


def _answer(ledger: OpenLedger, asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    try:
        state, lines = recompute(ledger, asked["result"], folder, whole=asked["whole"])
    except BadLedger as error:  # nothing about the result: it is asked for again
        return {"broken": str(error)}
    bounded = [clean(line.replace(f"{folder}/", ""))[:MOST_LINE] for line in lines[:MOST_LINES]]
    return {"state": state.value, "lines": bounded}


def recompute(ledger: OpenLedger, result_id: str, folder: Path, *, whole: bool) -> Outcome:
    """Lay a result out as its run left it, or its samples alone, and hold what it states against them, as `verify`."""
    try:
        left_out = (lay_out if whole else _lay_out_samples)(ledger, result_id, folder)
        # every signature was checked against a registered key when it was taken in
        own = check_own_samples(ledger, result_id, None) if whole else ()
        state, lines = judge(verify_folder(folder, own, left_out), result_id, whole=whole)
        return state, lines if whole or state is not RecomputationState.HOLDS else [FIGURES_HOLD]
    except BadLedger:
        raise
    except LynxbenchError as error:
        return RecomputationState.CANNOT, [str(error)]
    except MemoryError:
        return RecomputationState.CANNOT, [OUT_OF_MEMORY]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _lay_out_samples(ledger: OpenLedger, result_id: str, folder: Path) -> dict[str, str]:
    """The document and its samples: enough for the figures, and a small part of the files."""
    recorded = find_result(ledger.log, result_id)
    listed = None if recorded is None else next((b for b in recorded.entry.blobs if b.name == MANIFEST_FILE), None)
    if listed is None:
        raise NotFound(f"its entry names no {MANIFEST_FILE}")
    folder.mkdir(parents=True)
    for file in parse_manifest(ledger.blobs.get(listed.sha256)).files:
        if file.path in (RESULT_FILE, SAMPLES_FILE):
            (folder / file.path).write_bytes(ledger.blobs.get(file.sha256))
    return {}


OUT_OF_MEMORY = "it needs more memory than one result may take"
FIGURES_HOLD = "its samples give its figures; the rest of its files is still to be verified"


def judge(report: VerificationReport, result_id: str, *, whole: bool = True) -> Outcome:
    """What the lines of `verify` come to: refuted by one that does not hold, recomputed where figures were.

    From the `whole` run all of them are asked for, from its samples alone what those give.
    """
    wrong = [check for check in report.checks if check.outcome is CheckOutcome.DOES_NOT_HOLD]
    refuting = [check.line for check in wrong if not _exhausted(check)]
    if refuting:
        return RecomputationState.REFUTED, refuting
    if wrong:
        return RecomputationState.CANNOT, [OUT_OF_MEMORY]
    if report.result_id != result_id:
        return RecomputationState.REFUTED, ["its document is that of another result"]
    names = (THROUGHPUT, FIGURES) if whole else (THROUGHPUT,)
    figures = [check for check in report.checks if check.name.endswith(names)]
    not_made = [check.line for check in figures if check.outcome is not CheckOutcome.HOLDS]
    if not_made or not figures:
        return RecomputationState.CANNOT, not_made or ["it brings no samples"]
    held, left = report.count(CheckOutcome.HOLDS), report.count(CheckOutcome.CANNOT)
    traces = "; traces were left out: where the time went was not" if report.without_traces else ""
    return RecomputationState.HOLDS, [f"{held} checks hold, {left} cannot be made from what is here{traces}"]


def _exhausted(check: Check) -> bool:
    """Whether reading ended because this process may not have more: that says nothing about the figures."""
    return check.name == RAW_FILES and _NO_MEMORY.match(check.why) is not None


if __name__ == "__main__":
    main()
