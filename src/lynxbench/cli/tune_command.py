"""`lynxbench tune`: bounded optimisation under a contract."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import BadInput, ExitCode

METHODS = ("model", "tpe", "halving")


def tune(
    contract: str = typer.Argument(help="A contract in division bounded or open, with knobs and a budget."),
    out: Path = typer.Option(Path("tunings"), help="Folder that receives one folder a tuning."),
    search: str = typer.Option("model", help="How settings are chosen: model, tpe (Optuna) or halving."),
    confirmations: int = typer.Option(5, min=2, max=100, help="Pairs of fresh processes on unseen seeds at the end."),
    seed: int = typer.Option(20260101, min=0, max=2**31 - 1, help="Of the search and of the confirmation's seeds."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished tuning of this contract."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Turn the contract's knobs within its budget; report what fresh processes and unseen seeds confirm.

    Exit code 1 when no gain over the baseline is confirmed.
    """
    from lynxbench.cli.experiment_command import Records
    from lynxbench.cli.experiment_progress import VisitProgress
    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.contract.loader import read_contract
    from lynxbench.contract.writer import Marked, render_contract
    from lynxbench.evidence.documents import write_text
    from lynxbench.experiment.searching import Method
    from lynxbench.experiment.tuning_run import run_tuning
    from lynxbench.model.analyses import analysis_id
    from lynxbench.model.tuning import TuningVerdict
    from lynxbench.report.documents.tuning_document import compose_tuning
    from lynxbench.report.render_html import render_html

    if search not in METHODS:
        raise BadInput(f"--search {search!r}: choose one of {', '.join(METHODS)}")
    declaration = None
    if declare is not None:
        from lynxbench.executor.declaration import read_declaration

        declaration = read_declaration(declare)
    records = Records(ledger)
    finished = run_tuning(
        read_contract(contract),
        out,
        declaration,
        VisitProgress(),
        records,
        method=Method(search),
        seed=seed,
        confirmations=confirmations,
        resume=resume,
    )
    evidence = records.conclude(finished.folder)
    records.tell()
    document = finished.document
    page, best = finished.folder / "report.html", finished.folder / "tuned.yaml"
    write_text(page, render_html(compose_tuning(document)))
    if finished.contract is not None:
        write_text(best, render_contract(finished.contract, Marked()))
    if as_json:
        print_document({"analysis_id": analysis_id(document), **document.model_dump(mode="json")})
    else:
        print(terminal_text(compose_tuning(document)), end="")
        print(f"\nreport    {page}")
        if finished.contract is not None:
            print(f"tuned     {best}")
        if evidence:
            print(f"evidence  {evidence}")
    if document.verdict is not TuningVerdict.IMPROVED:
        raise typer.Exit(ExitCode.VERDICT_NO)
