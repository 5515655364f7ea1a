"""`lynxbench ci`: a branch held against its base by every contract of the repository, for a pipeline to stop at."""

from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.commit_measuring import measuring_commits, writable, write_pipeline_files
from lynxbench.cli.options import AS_JSON, DECLARE, OUT, RECORDING_LEDGER
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import ExitCode
from lynxbench.model.branch_check import FailOn
from lynxbench.report.documents.branch_document import compose_branch
from lynxbench.watch.branch_checking import LARGEST_TIMES, check_branch
from lynxbench.watch.checkouts import Repository


def ci(
    contracts: list[str] = typer.Argument(None, help="Contracts; without any, all that the head has here and below."),
    base: str | None = typer.Option(
        None, "--base", help="A commit to hold against; else where it left the main branch."
    ),
    head: str | None = typer.Option(None, "--head", help="The commit to judge; else HEAD, with nothing uncommitted."),
    fail_on: FailOn = typer.Option(
        FailOn.REGRESSION, "--fail-on", help="What the exit code tells a pipeline to stop at."
    ),
    prepare: str | None = typer.Option(
        None, "--prepare", help="A shell command that readies each tree, such as building its extensions."
    ),
    times: int = typer.Option(
        LARGEST_TIMES, "--times", min=1, help="Most times its restarts for a contract that stays inconclusive."
    ),
    reports: Path = typer.Option(
        Path("lynxbench-ci"), "--reports", help="Folder for comment.md, junit.xml, results.sarif and check.json."
    ),
    out: Path = OUT,
    declare: Path | None = DECLARE,
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Compare a branch with its base: every contract in pairs, with the code of each commit, in one sitting.

    Exit code 1 when a contract regressed, proven twice; 2 when the head's code does not run; 6 when something stays in
    doubt and `--fail-on doubt` asks for it. Doubtful evidence convicts nobody.
    """
    repository = Repository.around(Path.cwd())
    judged = repository.commit(head or "HEAD")
    if head is None:
        repository.refuse_changes()
    against = repository.base_of(judged) if base is None else repository.commit(base)
    folder = writable(reports)
    with measuring_commits(out, declare, ledger) as pairs:
        check = check_branch(repository, against, judged, contracts or [], pairs, fail_on, prepare, times)
    write_pipeline_files(check, folder)
    answer(as_json, check, lambda: terminal_text(compose_branch(check)))
    if check.exit_code is not ExitCode.DONE:
        raise typer.Exit(check.exit_code)
