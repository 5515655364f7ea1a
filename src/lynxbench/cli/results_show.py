"""`lynxbench results show` and `foreign`: one result with all that was said about it; what other tools measured."""

import os

from lynxbench.cli.answers import answer, print_document
from lynxbench.cli.naming import named_result
from lynxbench.cli.options import AS_JSON, LEDGER, LIMIT, RESULT
from lynxbench.cli.output import print_result, tell_blame
from lynxbench.cli.showing import LIST_WIDTH, terminal_text
from lynxbench.cli.terminal import say
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.key_log import NEWEST, logged_trust
from lynxbench.ledger.location import opened
from lynxbench.ledger.queries import entries_about, list_foreign
from lynxbench.ledger.remarks import remarks_of
from lynxbench.ledger.result_standings import standings, voice_of
from lynxbench.model.evidence_gate import standing_falls_short
from lynxbench.record.listing import about_document, foreign_document
from lynxbench.record.recalling import result_document
from lynxbench.report.documents.ledger_documents import compose_about, compose_foreign_list


def show(
    result: str = RESULT,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Show a result, what it stands on, and everything that was said about it."""
    trust = Keyring().trust
    with opened(ledger, os.environ) as open_:
        result_id = named_result(open_, result)
        document = result_document(open_, result_id)
        entries = entries_about(open_.log, [result_id, document.run_id])
        trust = logged_trust(open_.log, trust).at(NEWEST)
        about = [(logged, voice_of(logged, trust)) for logged in entries]
        standing = standings(open_.log, [result_id], trust)[result_id]
        remarks = remarks_of(open_.log, [result_id], trust)[result_id]
    also = standing_falls_short(document, standing)
    if as_json:
        tell_blame(document, also)
        print_document({"result": document.document(), **about_document(about, standing, remarks)})
        return
    print_result(document, {}, False, recorded=True, also=also)
    say("\n" + terminal_text(compose_about(about, standing, remarks), LIST_WIDTH), end="")


def foreign(
    limit: int = LIMIT,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """List results of other tools that were imported, with what each fails to state."""
    trust = Keyring().trust
    with opened(ledger, os.environ) as open_:
        imported = [(logged, voice_of(logged, trust)) for logged in list_foreign(open_.log, limit)]
    answer(
        as_json, lambda: foreign_document(imported), lambda: terminal_text(compose_foreign_list(imported), LIST_WIDTH)
    )
