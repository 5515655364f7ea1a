"""`lynxbench verify`: a result recomputed from its raw samples, an analysis from its results, line by line."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from lynxbench import __version__
from lynxbench.cli.answers import answer, tell
from lynxbench.cli.naming import append_signed
from lynxbench.cli.options import AS_JSON, LEDGER
from lynxbench.cli.terminal import as_lines
from lynxbench.errors import BadInput, BadLedger, ExitCode, Refused
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.manifest import MANIFEST_FILE
from lynxbench.evidence.sample_file import hash_file
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.key_log import NEWEST, logged_trust
from lynxbench.ledger.location import NO_LEDGER, OpenLedger, opened
from lynxbench.ledger.names import find_analysis, find_id, is_name, looks_like_id
from lynxbench.ledger.queries import find_result
from lynxbench.ledger.result_standings import standings
from lynxbench.model.canonical import short
from lynxbench.model.entries import ResultVerified
from lynxbench.model.verification import (
    FIGURES_LINE,
    Check,
    CheckOutcome,
    EvidenceVerdict,
    VerificationReport,
    cannot,
    fails,
    worst,
)
from lynxbench.record.attestation_check import check_attestation, read_roots
from lynxbench.record.bundled_results import is_bundle, read_stranger_bundle, verify_bundled
from lynxbench.record.recalling import lay_out, ledger_checks
from lynxbench.record.recalling_analyses import named_analysis
from lynxbench.record.recording_analyses import analysis_kind
from lynxbench.record.sample_copies import check_own_samples
from lynxbench.record.signature_check import check_envelope
from lynxbench.record.verifying import verify_folder
from lynxbench.record.verifying_analyses import ledger_lines, verify_analysis_folder, verify_logged

PACK_SUFFIX = ".lynxpack"
TODAY = "standing today"
HELD = "decisions were held against their results; prices, demands, catalogues and simulated periods are a team's word"
NOT_HELD = "decisions were made by another version of lynxbench: what they say of their results is a team's word"
VERDICT_WORDS = {
    EvidenceVerdict.HOLDS: "holds",
    EvidenceVerdict.DOES_NOT_HOLD: "DOES NOT HOLD",
    EvidenceVerdict.CANNOT: "CANNOT BE VERIFIED",
}


def verify(
    result: str = typer.Argument(
        help="The folder of a run, experiment, tuning or fleet run; an id or name in the ledger; a bundle or a pack."
    ),
    everything: bool = typer.Option(False, "--all", help="Also show the lines that hold."),
    record: bool = typer.Option(False, "--record", help="Say in the ledger, signed, what came of it."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Recompute ids, hashes, figures and verdicts from the raw samples; of an experiment, a tuning or a fleet run, the
    whole analysis from the results that it cites. Exit code 5 when anything does not hold, 7 when nothing was found and
    not all that the figures rest on is there.
    """
    path = Path(result)
    if path.is_file() and path.suffix == PACK_SUFFIX:
        _verify_pack(path, ledger, as_json)
        return
    if is_bundle(path):
        if record:
            raise Refused(f"{path}: a bundle is no ledger; take it in and record there: lynxbench results import")
        _verify_bundle(path, everything, as_json)
        return
    report = _verify_path(path, ledger) if path.exists() else _verify_id(result, ledger)
    recorded = {"seq": _record(report, path, ledger)} if record and report.recomputed else {}
    answer(
        as_json,
        lambda: {**report.document(), **recorded},
        lambda: (
            render_verification(report, everything)
            + "".join(f"  recorded as entry {seq}\n" for seq in recorded.values())
        ),
    )
    if record and not recorded:
        tell("lynxbench: not recorded: its figures were not computed again, so there is nothing to say of them")
    _leave(report.verdict)


def _leave(verdict: EvidenceVerdict) -> None:
    """End as the verdict asks for; what holds is done."""
    if verdict is not EvidenceVerdict.HOLDS:
        invalid = verdict is EvidenceVerdict.DOES_NOT_HOLD
        raise typer.Exit(ExitCode.EVIDENCE_INVALID if invalid else ExitCode.CANNOT_VERIFY)


def _verify_pack(path: Path, ledger: str | None, as_json: bool) -> None:
    """Print what holds, each result computed again; EvidenceInvalid where bytes or signatures do not.

    A pack stays as it was made: what the reader's own ledger has heard of its results by today stands beside it.
    """
    from lynxbench.decide.packing import verify_pack  # decisions and their pages are loaded for a pack alone

    verified = verify_pack(path, os.environ)
    today = _standings_today(verified.pack.cites, ledger)
    reports = [report.adding(today.get(report.result_id, ())) for report in verified.reports]
    pack, verdict = verified.pack, worst(report.verdict for report in reports)
    lines = [f"  {decision.kind}: {decision.sentence}" for decision in pack.decisions]
    by = ", ".join(verified.teams) or "a key that was made for it and thrown away"
    cited = ", ".join(map(short, pack.cites))
    signed = f"  {verified.entries} signed entries by {by}, each with its proof; results {cited}"
    invented = ", and all of it is invented" if pack.invented else ""
    again = pack.lynxbench_version == __version__
    answer(
        as_json,
        lambda: {
            "verdict": verdict.value,
            "holds": verdict is EvidenceVerdict.HOLDS,
            "invented": bool(pack.invented),
            "title": pack.title,
            "decisions": [decision.sentence for decision in pack.decisions],
            "decisions_computed_again": again,
            "results": list(pack.cites),
            "entries": verified.entries,
            "signed_by": list(verified.teams),
            "origin": verified.origin,
            "verifications": [report.document() for report in reports],
        },
        lambda: as_lines(
            [
                f"pack {VERDICT_WORDS[verdict]}{invented}: {pack.title}",
                *lines,
                signed,
                f"  {HELD if again else NOT_HELD}",
                *(f"  {_headline(report)}" for report in reports),
                *(f"  {short(name)} by your ledger: {check.why}" for name, said in today.items() for check in said),
            ]
        ),
    )
    _leave(verdict)


def _standings_today(names: Sequence[str], ledger: str | None) -> dict[str, tuple[Check, ...]]:
    """What the ledger at hand has heard against results: of each by its id, where it holds it."""
    try:
        with opened(ledger, os.environ) as open_:
            here = [name for name in names if find_result(open_.log, name) is not None]
            known = standings(open_.log, here, Keyring().trust)
    except BadLedger:
        if ledger not in (None, NO_LEDGER):
            raise
        return {}
    return {
        name: (
            *(cannot(TODAY, f"contested by {voice.by}: {voice.text}") for voice in standing.contested),
            *(cannot(TODAY, f"does not verify, says {voice.by}") for voice in standing.refuted),
            *(fails(TODAY, f"retracted by {voice.by}: {voice.text}") for voice in standing.retracted),
        )
        for name, standing in known.items()
    }


def _verify_bundle(path: Path, everything: bool, as_json: bool) -> None:
    """Every result that a bundle was made for, computed again; nothing is taken in."""
    read = read_stranger_bundle(path, Keyring().trust)
    reports = verify_bundled(read, read.bundle.manifest.results)
    verdict = worst(report.verdict for report in reports)
    answer(
        as_json,
        lambda: {
            "verdict": verdict.value,
            "holds": verdict is EvidenceVerdict.HOLDS,
            "origin": read.bundle.checkpoint.origin,
            "results": [report.document() for report in reports],
        },
        lambda: "".join(render_verification(report, everything) for report in reports),
    )
    _leave(verdict)


def _verify_path(path: Path, ledger: str | None) -> VerificationReport:
    """A folder, with what the ledger adds where it is there and knows the result or the analysis."""
    trust = _trust(ledger)
    is_analysis = analysis_kind(path) is not None
    report = verify_analysis_folder(path) if is_analysis else verify_folder(path, _beside(path, trust))
    try:
        with opened(ledger, os.environ) as open_:
            if is_analysis:
                logged = find_analysis(open_.log, report.result_id)
                return report if logged is None else report.adding(ledger_lines(open_, logged, trust))
            known = report.result_id and find_result(open_.log, report.result_id) is not None
            return report.adding(_ledger_lines(open_, report.result_id, trust)) if known else report
    except BadLedger:
        if ledger not in (None, NO_LEDGER):  # one that nobody asked for may be absent
            raise
    return report


def _beside(folder: Path, trust: TrustList) -> tuple[Check, ...]:
    """Who signed what is in a folder, and what the hardware says of the run."""
    return (*check_envelope(folder, trust), *check_attestation(folder, read_roots(os.environ)))


def _trust(ledger: str | None) -> TrustList:
    """Whom the reader trusts, with the identities that the ledger's key log proves, where there are any."""
    trust = Keyring().trust
    if not trust.identities:
        return trust
    try:
        with opened(ledger, os.environ) as open_:
            return logged_trust(open_.log, trust).at(NEWEST)
    except BadLedger:
        return trust


def _verify_id(named: str, ledger: str | None) -> VerificationReport:
    """A result or an analysis out of the ledger, laid out as its run left it."""
    trust = Keyring().trust
    with opened(ledger, os.environ) as open_, tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        analysis = named_analysis(open_, named)
        if analysis is not None:
            return verify_logged(open_, analysis, Path(temporary) / "analysis", trust)
        if not looks_like_id(named) and not is_name(named):
            raise BadInput(f"{named}: no such file or folder, and no id or name in the ledger")
        result_id = find_id(open_.log, named, "result")
        folder = Path(temporary) / short(result_id)
        left_out = lay_out(open_, result_id, folder)
        report = verify_folder(folder, _beside(folder, logged_trust(open_.log, trust).at(NEWEST)), left_out)
        return report.adding(_ledger_lines(open_, result_id, trust))


def _ledger_lines(ledger: OpenLedger, result_id: str, trust: TrustList) -> tuple[Check, ...]:
    """What a ledger adds: who signed and what was said, and whether another run of it has the same samples."""
    return (*ledger_checks(ledger, result_id, trust), *check_own_samples(ledger, result_id, trust))


def _record(report: VerificationReport, path: Path, ledger: str | None) -> int:
    """Append the verification of a result that the ledger holds; of its own files, not of a copy that may differ."""
    if report.subject != "result":
        raise Refused(f"a {report.subject} is made again by whoever wants to know; record what comes of its results")
    with opened(ledger, os.environ) as open_:
        recorded = find_result(open_.log, report.result_id) if report.result_id else None
        if recorded is None:
            raise Refused(
                f"{short(report.result_id) or 'this result'}: not in the ledger, so nothing is recorded about it"
            )
        manifest = (path if path.is_dir() else path.parent) / MANIFEST_FILE
        held = next((blob.sha256 for blob in recorded.entry.blobs if blob.name == MANIFEST_FILE), None)
        if path.exists() and (not manifest.is_file() or hash_file(manifest) != held):
            name = short(report.result_id)
            raise Refused(f"{path}: other files than the ledger holds of {name}; say lynxbench verify {name} --record")
        lines = tuple(check.line for check in report.checks)
        body = ResultVerified(result_id=report.result_id, holds=report.holds, checks=lines)
        return append_signed(open_, body)[0]


def render_verification(report: VerificationReport, everything: bool) -> str:
    """The verdict first, then the lines that matter."""
    lines = [_headline(report)]
    marks = {CheckOutcome.HOLDS: "✓", CheckOutcome.DOES_NOT_HOLD: "✗", CheckOutcome.CANNOT: "·"}
    shown = [check for check in report.checks if everything or check.outcome is not CheckOutcome.HOLDS]
    shown.sort(key=lambda check: (check.outcome is not CheckOutcome.DOES_NOT_HOLD, check.name != FIGURES_LINE))
    lines += [f"  {marks[check.outcome]} {check.line}" for check in shown]
    return as_lines(lines)


def _headline(report: VerificationReport) -> str:
    held, failed, unknown = (
        report.count(outcome) for outcome in (CheckOutcome.HOLDS, CheckOutcome.DOES_NOT_HOLD, CheckOutcome.CANNOT)
    )
    name = f" {short(report.result_id)}" if report.result_id else ""
    signed = "" if report.signed else "; nobody's signature"
    traces = "; where the time went is not verified: traces were left out" if report.without_traces else ""
    counts = f"{held} checks hold, {failed} do not, {unknown} cannot be recomputed{traces}{signed}"
    return f"{report.subject}{name} {VERDICT_WORDS[report.verdict]}: {counts}"
