"""`lynxbench bisect`: the commit that made it slower, found by pairs."""

from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.commit_measuring import measuring_commits
from lynxbench.cli.options import AS_JSON, CONTRACT_FILE, DECLARE, OUT, RECORDING_LEDGER
from lynxbench.cli.showing import terminal_text
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput, ExitCode
from lynxbench.experiment.pairing import refuse_unpaired
from lynxbench.experiment.visiting import Setting
from lynxbench.model.branch_check import Bisection
from lynxbench.report.documents.branch_document import compose_bisection
from lynxbench.watch.bisecting import CommitHunt, open_bisection
from lynxbench.watch.checkouts import Repository


def bisect(
    good: str = typer.Argument(help="A commit that was quick; everything is held against it."),
    bad: str = typer.Argument(help="A later commit that is slow."),
    contract: str = CONTRACT_FILE,
    prepare: str | None = typer.Option(
        None, "--prepare", help="A shell command that readies each tree, such as building its extensions."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished search of this question."),
    out: Path = OUT,
    declare: Path | None = DECLARE,
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Find the commit that made it slower: midpoints in pairs with the good one, in doubt with more restarts.

    Exit code 0 when one commit is found and confirmed against the one before it, 1 when the bad one is not slower, 6
    when it is one of several, or not confirmed. Commits that do not run, or stay in doubt, are passed over.
    """
    agreed = read_contract(contract)
    refuse_unpaired(Setting(agreed), Setting(agreed))
    repository = Repository.around(Path.cwd())
    first, last = repository.commit(good), repository.commit(bad)
    commits = repository.between(first, last)
    if not commits:
        raise BadInput(f"{good} and {bad} are one commit ({first.short}); name a good one before the bad one")
    question = Bisection(contract=contract, contract_id=agreed.contract_id, good=first, bad=last, commits=commits)
    folder = open_bisection(out, question, agreed.name, resume=resume)
    with measuring_commits(out, declare, ledger) as pairs:
        found = CommitHunt(folder, agreed, repository, pairs, prepare).carry_out()
    answer(as_json, found, lambda: terminal_text(compose_bisection(found)))
    if found.exit_code is not ExitCode.DONE:
        raise typer.Exit(found.exit_code)
