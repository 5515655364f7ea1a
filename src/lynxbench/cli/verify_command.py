"""`lynxbench verify`: a result recomputed from its raw samples, an analysis from its results, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import BadLedger, ExitCode, Refused

if TYPE_CHECKING:
    from lynxbench.model.verification import VerificationReport


def verify(
    result: str = typer.Argument(
        help="The folder of a run, experiment, tuning or fleet run; an id or name in the ledger; or a pack."
    ),
    everything: bool = typer.Option(False, "--all", help="Also show the lines that hold."),
    record: bool = typer.Option(False, "--record", help="Say in the ledger, signed, what came of it."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Recompute ids, hashes, figures and verdicts from the raw samples; of an experiment, a tuning or a fleet run, the
    whole analysis from the results that it cites. Exit code 5 when anything does not hold.
    """
    import json

    from lynxbench.cli.pack_verify import is_pack, verify_pack_file

    path = Path(result)
    if is_pack(path):
        verify_pack_file(path, as_json)
        return
    report = _verify_path(path, ledger) if path.exists() else _verify_id(result, ledger)
    seq = _record(report, ledger) if record else None
    if as_json:
        document = report.document() if seq is None else {**report.document(), "seq": seq}
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        print(render_verification(report, everything), end="")
        if seq is not None:
            print(f"  recorded as entry {seq}")
    if not report.holds:
        raise typer.Exit(ExitCode.EVIDENCE_INVALID)


def _verify_path(path: Path, asked: str | None) -> VerificationReport:
    """A folder, with what the ledger adds where it is there and knows the result."""
    import os

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.queries import find_result
    from lynxbench.record.recalling import ledger_checks, opened
    from lynxbench.record.recording_analyses import analysis_kind
    from lynxbench.record.signature_check import check_envelope
    from lynxbench.record.verifying import verify_folder

    if analysis_kind(path) is not None:
        return _verify_analysis(path, asked)
    trust = Keyring().trust
    report = verify_folder(path, check_envelope(path, trust))
    try:
        with opened(asked, os.environ) as open_:
            if report.result_id and find_result(open_.log, report.result_id) is not None:
                return report.adding(ledger_checks(open_, report.result_id, trust))
    except BadLedger:
        if asked not in (None, "none"):
            raise
    return report


def _verify_analysis(path: Path, asked: str | None) -> VerificationReport:
    """The folder of an experiment, a tuning or a fleet run, with what the ledger adds where it has it."""
    import os

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.names import find_analysis
    from lynxbench.record.recalling import opened
    from lynxbench.record.verifying_analyses import ledger_lines, verify_analysis_folder

    report = verify_analysis_folder(path)
    try:
        with opened(asked, os.environ) as open_:
            logged = find_analysis(open_.log, report.result_id)
            return report if logged is None else report.adding(ledger_lines(open_, logged, Keyring().trust))
    except BadLedger:
        if asked not in (None, "none"):
            raise
    return report


def _verify_id(named: str, asked: str | None) -> VerificationReport:
    """A result out of the ledger, laid out as its run left it."""
    import os
    import tempfile

    from lynxbench.errors import BadInput
    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.names import find_id, looks_like_id
    from lynxbench.model.canonical import short
    from lynxbench.record.recalling import lay_out, ledger_checks, opened
    from lynxbench.record.recalling_analyses import named_analysis
    from lynxbench.record.signature_check import check_envelope
    from lynxbench.record.verifying import verify_folder

    trust = Keyring().trust
    with opened(asked, os.environ) as open_, tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        analysis = named_analysis(open_, named)
        if analysis is not None:
            from lynxbench.record.verifying_analyses import verify_logged

            return verify_logged(open_, analysis, Path(temporary) / "analysis", trust)
        if not looks_like_id(named):
            raise BadInput(f"{named}: no such file or folder, and no id or name in the ledger")
        result_id = find_id(open_.log, named, "result")
        folder = Path(temporary) / short(result_id)
        lay_out(open_, result_id, folder)
        report = verify_folder(folder, check_envelope(folder, trust))
        return report.adding(ledger_checks(open_, result_id, trust))


def _record(report: VerificationReport, asked: str | None) -> int:
    """Append the verification; a result that the ledger does not hold cannot be spoken of there."""
    import os
    from datetime import UTC, datetime

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.queries import find_result
    from lynxbench.model.canonical import short
    from lynxbench.model.entries import ResultVerified
    from lynxbench.record.recalling import opened
    from lynxbench.record.recording import seal

    if report.subject != "result":
        raise Refused(f"a {report.subject} is made again by whoever wants to know; record what comes of its results")
    with opened(asked, os.environ) as open_:
        if not report.result_id or find_result(open_.log, report.result_id) is None:
            raise Refused(
                f"{short(report.result_id) or 'this result'}: not in the ledger, so nothing is recorded about it"
            )
        lines = tuple(check.line for check in report.checks)
        body = ResultVerified(result_id=report.result_id, holds=report.holds, checks=lines)
        seq = open_.log.append(seal(body, Keyring().signing_key(datetime.now(UTC)).key))
        open_.seen.check(open_.log)
        return seq


def render_verification(report: VerificationReport, everything: bool) -> str:
    """The verdict first, then the lines that matter."""
    from lynxbench.model.canonical import short
    from lynxbench.model.verification import CheckOutcome

    held, failed, unknown = (
        report.count(one) for one in (CheckOutcome.HOLDS, CheckOutcome.DOES_NOT_HOLD, CheckOutcome.CANNOT)
    )
    verdict = "holds" if report.holds else "DOES NOT HOLD"
    name = f" {short(report.result_id)}" if report.result_id else ""
    signed = "" if report.signed else "; nobody's signature"
    lines = [
        f"{report.subject}{name} {verdict}: {held} checks hold, {failed} do not, {unknown} cannot be recomputed{signed}"
    ]
    marks = {CheckOutcome.HOLDS: "✓", CheckOutcome.DOES_NOT_HOLD: "✗", CheckOutcome.CANNOT: "·"}
    shown = [check for check in report.checks if everything or check.outcome is not CheckOutcome.HOLDS]
    shown.sort(key=lambda check: check.outcome is not CheckOutcome.DOES_NOT_HOLD)
    lines += [f"  {marks[check.outcome]} {check.line}" for check in shown]
    return "\n".join(lines) + "\n"
