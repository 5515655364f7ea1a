"""`lynxbench tune`: bounded optimisation under a contract."""

from pathlib import Path

import typer

from lynxbench.cli.analysis_records import AnalysisRecords
from lynxbench.cli.experiment_progress import VisitProgress
from lynxbench.cli.experiment_show import show_tuning
from lynxbench.cli.options import AS_JSON, DECLARE, LEDGER
from lynxbench.contract.loader import read_contract
from lynxbench.contract.writer import Marked, render_contract
from lynxbench.errors import ExitCode
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.declaration import read_declaration
from lynxbench.experiment.searching import Method
from lynxbench.experiment.tuning_run import run_tuning
from lynxbench.model.tuning import TuningVerdict
from lynxbench.report.documents.tuning_document import compose_tuning
from lynxbench.report.render_html import render_html


def tune(
    contract: str = typer.Argument(help="A contract in division bounded or open, with knobs and a budget."),
    out: Path = typer.Option(Path("tunings"), help="Folder that receives one folder a tuning."),
    search: Method = typer.Option(Method.MODEL, help="How settings are chosen; tpe is Optuna's."),
    confirmations: int = typer.Option(
        5, min=2, max=100, help="Pairs of fresh processes, unseen seeds; a verdict needs 5."
    ),
    seed: int = typer.Option(20260101, min=0, max=2**31 - 1, help="Of the search and of the confirmation's seeds."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished tuning of this contract."),
    declare: Path | None = DECLARE,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Turn the contract's knobs within its budget; report what fresh processes and unseen seeds confirm.

    Exit code 1 when no gain over the baseline is proven: by five pairs or more, of processes that are sound evidence.
    """
    records = AnalysisRecords(ledger)
    finished = run_tuning(
        read_contract(contract),
        out,
        read_declaration(declare) if declare else None,
        VisitProgress(),
        records,
        method=search,
        seed=seed,
        confirmations=confirmations,
        resume=resume,
    )
    document, folder = finished.document, finished.folder
    places = {"report": str(folder / "report.html"), "tuned": "", "evidence": records.conclude(folder)}
    write_text(folder / "report.html", render_html(compose_tuning(document)))
    if finished.contract is not None:
        places["tuned"] = str(folder / "tuned.yaml")
        write_text(folder / "tuned.yaml", render_contract(finished.contract, Marked()))
    show_tuning(document, as_json, places)
    if document.verdict is not TuningVerdict.IMPROVED:
        raise typer.Exit(ExitCode.VERDICT_NO)
