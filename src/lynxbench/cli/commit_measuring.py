"""What `ci` and `bisect` measure commits with, and the files that a pipeline reads."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lynxbench.cli.analysis_records import AnalysisRecords
from lynxbench.cli.experiment_progress import VisitProgress
from lynxbench.cli.terminal import tell
from lynxbench.errors import BadInput
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.declaration import read_declaration
from lynxbench.experiment.experiment_run import ENVIRONMENTS
from lynxbench.experiment.visiting import Visits
from lynxbench.model.branch_check import BranchCheck
from lynxbench.report.pipeline_files import render_comment, render_junit, render_sarif
from lynxbench.watch.commit_pairs import CommitPairs

JOB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that becomes the summary of a job, where GitHub runs it."""


@contextmanager
def measuring_commits(out: Path, declare: Path | None, ledger: str | None) -> Iterator[CommitPairs]:
    """Measures commits into a folder and a ledger; what is to be known of the record is told at the end."""
    runs = out.absolute()  # processes stand in the trees of their commits
    records = AnalysisRecords(ledger)
    declaration = read_declaration(declare) if declare else None
    visits = Visits(runs, runs / ENVIRONMENTS, Path.cwd(), declaration, records)
    try:
        yield CommitPairs(visits, VisitProgress(), np.random.default_rng(), tell)
    finally:
        records.tell_news()


def writable(folder: Path) -> Path:
    """A folder for files, made before minutes are spent on what would be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written ({error.strerror or error})") from None
    return folder


def write_pipeline_files(check: BranchCheck, reports: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Beside one another in a folder; and the summary of the job, where there is one."""
    comment = render_comment(check)
    texts = {
        "comment.md": comment,
        "junit.xml": render_junit(check),
        "results.sarif": render_sarif(check),
        "check.json": check.model_dump_json(indent=1),
    }
    summary = environment.get(JOB_SUMMARY)
    try:
        for name, text in texts.items():
            write_text(reports / name, text)
        if summary:
            with Path(summary).open("a", encoding="utf-8") as stream:
                stream.write(comment)
    except OSError as error:
        raise BadInput(f"{error.filename or reports}: cannot be written ({error.strerror or error})") from None
    tell(f"written: {', '.join(texts)} in {reports}")
