"""`lynxbench results list`: what the index answers; of each machine one document is looked at for its name."""

import os

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON, LEDGER, LIMIT, moment_of
from lynxbench.cli.showing import LIST_WIDTH, terminal_text
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.location import opened
from lynxbench.ledger.names import find_id, machine_letters
from lynxbench.ledger.queries import Wanted, list_results, open_runs
from lynxbench.ledger.remarks import remarks_of, tagged_results
from lynxbench.ledger.result_standings import standings
from lynxbench.model.precision import Precision
from lynxbench.model.verdicts import ValidityVerdict
from lynxbench.record.listing import list_document
from lynxbench.record.machine_names import machine_names
from lynxbench.report.documents.ledger_documents import compose_list


def list_(
    contract: str | None = typer.Option(None, help="Only results of this contract: id, its beginning, or name."),
    executor: str | None = typer.Option(None, help="Only results of this executor: id, its beginning, or last."),
    precision: Precision | None = typer.Option(None, help="Only results that measured this precision."),
    since: str | None = typer.Option(None, help="Only results started at or after this date (ISO 8601, UTC)."),
    valid: ValidityVerdict | None = typer.Option(None, help="Only results of this validity."),
    tag: str | None = typer.Option(None, help="Only results on which a team that you trust has this tag."),
    limit: int = LIMIT,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """List results, newest first, with their intervals and standing."""
    since_s = int(moment_of(since, "--since").timestamp()) if since else None
    trust = Keyring().trust
    with opened(ledger, os.environ) as open_:
        tagged = () if tag is None else tagged_results(open_.log, tag, trust)
        wanted = Wanted(
            contract=find_id(open_.log, contract, "contract") if contract else None,
            executor=find_id(open_.log, executor, "executor") if executor else None,
            precision=precision,
            since_s=since_s,
            validity=valid,
            results=tagged,
            limit=limit,
        )
        listed = list_results(open_.log, wanted) if tag is None or tagged else []
        shown = [result.result_id for result in listed]
        standing, remarks = standings(open_.log, shown, trust), remarks_of(open_.log, shown, trust)
        unfinished = open_runs(open_.log, wanted.contract)
        head = open_.log.head()
        machines = machine_letters(open_.log)
        names = {} if as_json else machine_names(open_, listed)
    answer(
        as_json,
        lambda: list_document(listed, standing, unfinished, head, machines, remarks),
        lambda: terminal_text(compose_list(listed, standing, unfinished, machines, names, remarks), LIST_WIDTH),
    )
