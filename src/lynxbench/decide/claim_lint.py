"""A claim under the lint: what it states, what is missing, what it could be compared with, what to ask back."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from lynxbench.decide.claim_text import claimed_in_text, stated_in_text, warnings_in_text
from lynxbench.decide.claim_values import claimed_by_peer, claimed_in_values, stated_by_peer, stated_in_values
from lynxbench.errors import BadInput
from lynxbench.model.claims import Claimed, ClaimReport, Context, Stated
from lynxbench.model.entries import ForeignImported
from lynxbench.model.result import Result

Grade = Literal["A", "B", "C", "D", "F"]
GRADES: tuple[tuple[int, Grade], ...] = ((0, "A"), (2, "B"), (5, "C"), (8, "D"))
"""Most contexts that may be missing for a grade; more is an F. A states everything, so that it can be re-run."""
LONGEST_CLAIM = 20_000
_NUMBERS_ALONE = re.compile(r"(?:\d[.,٫٬]*[ \u202f]?){60,}")
"""A table or a hostile text: where a figure begins and ends in it could be read in thousands of ways."""

QUESTIONS: dict[Context, str] = {
    Context.MODEL: "Which model, at which revision, with how many parameters?",
    Context.DEVICE: "On which device, how many of them, and in which system?",
    Context.PRECISION: "In which precision were weights, activations and KV cache, and what quantised them?",
    Context.LOAD: "At which batch size or concurrency, or at which request rate, was it measured?",
    Context.LENGTHS: "How many input and output tokens had a request, as a distribution?",
    Context.STACK: "Which versions of driver, runtime, framework and serving engine ran?",
    Context.REGIME: "Was load offered in an open or a closed loop, and was latency or throughput the aim?",
    Context.DURATION: "For how long was it measured, and was the state steady over that time?",
    Context.WARMUP: "What was excluded as warm-up and compilation?",
    Context.PERCENTILE: "Which percentile is the latency, and what are p50 and p99 at this throughput?",
    Context.ACCURACY: "Which accuracy does the model keep in this configuration, on which task, against what?",
    Context.POWER: "What did the system draw, measured where (device or wall), during this very run?",
}
MATTERS_FIRST = (Context.MODEL, Context.PRECISION, Context.LOAD, Context.LENGTHS)
"""Without these a figure can be compared with nothing at all."""


def lint_text(text: str, source: str) -> ClaimReport:
    """A claim in free text."""
    if not text.strip():
        raise BadInput(f"{source}: is empty; give a claim as text, YAML, a peer's result file or an MLPerf row")
    _check_length(text, source)
    claimed = claimed_in_text(text)
    return _report(source, "free text", claimed, stated_in_text(text), warnings_in_text(text, claimed))


def _check_length(text: str, source: str) -> None:
    if len(text) > LONGEST_CLAIM:
        raise BadInput(f"{source}: {len(text)} characters are no claim; cut out the sentence with the figures")
    if (numbers := _NUMBERS_ALONE.search(text)) is not None:
        many = f"{len(numbers[0])} characters of numbers in a row"
        raise BadInput(f"{source}: {many} are no claim; cut out the sentence with the figures")


def lint_values(values: Mapping[str, JsonValue], source: str, form: str) -> ClaimReport:
    """A claim as keys and values; texts among the values are read as text too."""
    words = " . ".join(
        str(value) for key, value in values.items() if isinstance(value, str) and key in ("claim", "text")
    )
    _check_length(words, source)
    stated = {statement.context: statement for statement in (*stated_in_text(words), *stated_in_values(values))}
    claimed = (*claimed_in_text(words), *claimed_in_values(values))
    ordered = tuple(stated[context] for context in Context if context in stated)
    return _report(source, form, claimed, ordered, warnings_in_text(words, claimed))


def lint_peer(foreign: ForeignImported, source: str, document: JsonValue = None) -> ClaimReport:
    """A result of another tool, with its whole document where it is JSON."""
    warnings = [
        f"{foreign.tool} does not state {what}" for what in foreign.missing if what.startswith("that the client")
    ]
    if foreign.stated.get("valid") is False:
        warnings.append("its own rules call this run INVALID")
    form = f"{foreign.tool} result"
    return _report(source, form, claimed_by_peer(foreign.figures), stated_by_peer(foreign, document), tuple(warnings))


def comparable_results(report: ClaimReport, results: Sequence[Result]) -> ClaimReport:
    """The same with the results of ours that it could stand beside, if what is missing were stated."""
    named = {statement.context: statement.words.lower() for statement in report.stated}
    near = []
    for result in results:
        model = result.conditions.model.lower()
        if Context.MODEL in named and any(part in named[Context.MODEL] for part in _parts(model)):
            precisions = ", ".join(figures.precision for figures in result.per_precision if figures.skipped is None)
            near.append(
                f"result {result.result_id[:8]} of {result.contract.name} ({result.conditions.model}, {precisions})"
            )
    if not near:
        return report
    return report.model_copy(update={"comparable_with": (*report.comparable_with, *near)})


def _parts(model: str) -> list[str]:
    return [model, model.split("-")[0]] if model else []


def _report(
    source: str, form: str, claimed: Sequence[Claimed], stated: Sequence[Stated], warnings: Sequence[str]
) -> ClaimReport:
    have = {statement.context for statement in stated}
    missing = tuple(context for context in Context if context not in have)
    grade: Grade = next((letter for most, letter in GRADES if len(missing) <= most), "F")
    warnings = [*warnings]
    if not claimed:
        warnings.insert(0, "no figure with a unit was found: there is nothing to check")
    kinds = {claim.kind for claim in claimed}
    if "rate" in kinds and "latency" not in kinds and Context.PERCENTILE in missing:
        warnings.append("a throughput without its latency says half: both come from one load")
    units = {_work(claim.unit) for claim in claimed if claim.kind == "rate"} - {""}
    if len(units) > 1 and form == "free text":
        warnings.append(f"rates in {' and '.join(sorted(units))} cannot be held against each other")
    return ClaimReport(
        source=source,
        form=form,
        sentence=_sentence(missing, grade),
        claimed=tuple(claimed),
        stated=tuple(stated),
        missing=missing,
        grade=grade,
        comparable_with=(_comparable(missing),),
        questions=tuple(QUESTIONS[context] for context in missing),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _work(unit: str) -> str:
    lowered = unit.lower()
    for word, kind in (("tok", "tokens"), ("tps", "tokens"), ("req", "requests"), ("rps", "requests"),
                       ("qps", "requests"),
                       ("quer", "requests"), ("image", "images"), ("sample", "samples")):  # fmt: skip
        if word in lowered:
            return kind
    return ""


def _comparable(missing: Sequence[Context]) -> str:
    lacking = [context.value for context in MATTERS_FIRST if context in missing]
    if lacking:
        return f"nothing: without {', '.join(lacking)} no result is known to be of the same workload"
    if missing:
        rest = ", ".join(context.value for context in missing)
        return f"results of the same model, precision, load and lengths, with doubt about {rest}"
    return "results of the same model, precision, load, lengths and stack"


def _sentence(missing: Sequence[Context], grade: str) -> str:
    if not missing:
        return f"grade {grade}: the claim states every context it needs"
    many = f"{len(missing)} of {len(Context)} contexts are missing"
    return f"grade {grade}: {many}: {', '.join(context.value for context in missing)}"
