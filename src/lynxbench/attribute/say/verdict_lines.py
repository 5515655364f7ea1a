"""A verdict in words: the sentence, the next step, the layers that may be behind it, and who owns each."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lynxbench.attribute.judge import causes
from lynxbench.attribute.judge.gain_range import COVERED, FEWEST, first_met, recorded
from lynxbench.attribute.judge.process_accounts import Contention
from lynxbench.attribute.judge.served_requests import PHASES
from lynxbench.attribute.judge.server_figures import ServedFigures
from lynxbench.attribute.judge.server_verdict import ServerVerdict
from lynxbench.attribute.judge.step_figures import HELD_UP, HOST_ENDS, NEEDED, SUMMED, TOLD, StepFigures, VerdictDraft
from lynxbench.attribute.judge.time_book import KERNELS, OperatorGroup, TimeBook
from lynxbench.attribute.read.resource_record import ResourceRecord
from lynxbench.attribute.say.evidence_lines import (
    account_evidence,
    request_evidence,
    say_declared,
    say_plainly,
    step_evidence,
)
from lynxbench.attribute.say.server_lines import server_evidence, server_sentence
from lynxbench.attribute.tile.request_split import RequestSplit
from lynxbench.model.attribution import Attribution, Bound, CandidateLayer, Category, OperatorTime
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.stats.lagged_correlation import Correlation

TOP_OPERATORS = 15
NOT_TOLD = "whether all of that work is needed, a trace does not tell"
NEEDLESS = "work that nobody needs (results that are not read, experts whose gate is zero) looks like any other"
SAME_WORK = "the same work by kernels at their ceilings, and less beside them, and not what less work would gain"
Owner = Callable[[Layer], str]

_OF_CAUSE = {
    causes.SLOW_KERNELS: ", by operators far below the ceiling measured on this machine",
    causes.BELOW_CEILING: ", by operators below the ceiling measured on this machine, neither near it nor far",
    causes.UNFUSED: ", much of it for intermediate results that fused operators avoid",
    causes.SMALL_KERNELS: ", much of it in kernels too small to fill the device",
    causes.WIDER: ", in a wider format than the contract's, in which the device is several times slower",
    causes.WHOLE_PRODUCTS: ", most of it by products of whole numbers",
    causes.FRESH_MEMORY: ", much of it to have memory mapped that each step asks for anew",
    causes.COPIED: ", much of it only to copy what was in memory before",
    causes.RELAID: ", much of it only to lay data out anew for the kernels that compute",
    causes.PICKED: ", to pick rows by multiplying with ones and zeros",
    causes.UNREAD: ", much of it for results of which little is read inside the step",
    causes.UNREAD_DIAGONAL: ", much of it for results of which only the diagonal is read inside the step",
    causes.DEAR_ORDER: ", much of it for large results that another order of the products would not write",
    causes.DONE_AGAIN: ", much of it to compute anew what the step had computed before",
    causes.UNUSED_RESULTS: ", much of it for results that nobody reads",
    causes.ON_ZEROS: ", much of it to multiply with zeros",
    causes.SPLIT_PRODUCTS: ", much of it to read the same weights, or to add up results, anew for each small part",
    causes.WRITTEN_OUT: ", much of it to multiply with tables that the step wrote out from far fewer numbers",
    causes.SAME_EACH_STEP: ", much of it to compute again what is the same in each step",
    causes.SLICES_COPIED: ", much of it to fetch by number what a slice would show without a copy",
    causes.MASKED_RESULTS: ", much of it for results of products that a mask drops",
    causes.PARTLY_READ: ", much of it for results of which only a part is read or returned",
    causes.REPEATED_ROWS: ", much of it for rows that it had multiplied before",
    causes.MASKED: ", much of it for pairs of positions that a written-out mask hides",
    causes.NARROWER: ", in full fp32 although the device is several times faster in TF32",
}
_OF_ACCOUNT: dict[Category, str] = {
    Category.COMPUTE: "a processor is at work for {0} of a step",
    Category.QUEUEING: "the step waits for a CPU for {0} of its time",
    Category.SYNCHRONIZATION: "the step waits for its own threads for {0} of its time",
    Category.INPUT: "the step waits for a disk for {0} of its time",
    Category.IDLE: "nothing of the process runs for {0} of a step",
}


def _lead(bound: Bound) -> str:
    return "undetermined" if bound is Bound.UNDETERMINED else f"{bound.value}-bound"


def _candidates(reasons: Mapping[Layer, str], owner: Owner) -> tuple[CandidateLayer, ...]:
    return tuple(CandidateLayer(layer=layer, owner=owner(layer), reason=reason) for layer, reason in reasons.items())


# --- steps of a trace -----------------------------------------------------------------------------------------------


def say_steps(figures: StepFigures, draft: VerdictDraft, *, owner: Owner) -> Attribution:
    """The attribution of a trace's steps."""
    book, shares, cause, damaged = figures.book, figures.shares, draft.cause, figures.damaged
    certain = not damaged and draft.bound is not Bound.UNDETERMINED
    layer = cause.layer if certain else None
    unseen = book.tiling.trace.unseen
    sentence = _sentence(draft, figures, damaged, unseen is not None)
    taken_as_needed = figures.rules >= NEEDED and draft.bound is Bound.HARDWARE
    if taken_as_needed:
        sentence += f"; {NOT_TOLD}"
    next_step = unseen.ask if unseen is not None else cause.next_step
    if damaged:
        next_step = "profile again: this trace is damaged or incomplete"
    elif cause is causes.UNFUSED and figures.fusion.attention:
        next_step = "use a fused attention kernel (scaled_dot_product_attention), so that the scores never reach memory"
    lines = step_evidence(figures, cause if certain else None)
    evidence = (lines[0], *_fix(draft, figures), *lines[1:])
    return Attribution(
        bottleneck=draft.bottleneck,
        bound=draft.bound,
        layer=layer,
        owner=owner(layer) if layer is not None else None,
        symptom_layer=cause.symptom if certain else None,
        shares={category: share.estimate for category, share in shares.of.items()},
        gain_if_removed=draft.gain,
        evidence=tuple(map(say_plainly, evidence)) if figures.rules >= SUMMED else evidence,
        weak=draft.weak,
        sentence=say_declared(sentence) if book.ceilings.declared else sentence,
        next_step=next_step,
        candidates=()
        if damaged or unseen is not None
        else _candidates(_behind(draft, figures, taken_as_needed), owner),
        wall_ms_per_step=book.usual_ns / 1e6,
        unprofiled_ms_per_step=figures.step_ms,
        steps=len(book),
        operators=list_operators(book)[:TOP_OPERATORS],
        ceilings=book.ceilings.all,
    )


def _sentence(draft: VerdictDraft, figures: StepFigures, damaged: bool, unseen: bool) -> str:
    share, cause = figures.shares.of[draft.bottleneck], draft.cause
    amount = _percent(share)
    text = causes.CAUSES[draft.bottleneck].takes(amount)
    if unseen and draft.bottleneck is Category.UNATTRIBUTED:
        text = f"what runs in {amount} of a step the record does not say"
    if damaged:
        return f"undetermined: the trace is damaged or incomplete; in what is left, {text}"
    if cause in _OF_CAUSE:
        text += _OF_CAUSE[cause]
    elif cause is causes.STALLED:
        text = causes.STALLED.takes(amount)
    elif cause.words == causes.STALLED.words:
        text += f", and threads ready to run wait for a CPU: {draft.reason}"
    elif draft.bound is Bound.HARDWARE:
        text += ", by operators near the ceiling measured on this machine"
    if cause is causes.SMALL_WORK:
        text += f", {draft.reason}"
    elif draft.reason and (draft.bound is Bound.UNDETERMINED or draft.reason.startswith("at their ceilings")):
        text += f"; {draft.reason}"
    return f"{_lead(draft.bound)}: {text}{_weak(draft, figures) if draft.weak else ''}"


def _weak(draft: VerdictDraft, figures: StepFigures) -> str:
    """Why a verdict is weak, in brackets."""
    shares = figures.shares
    close = shares.estimate(draft.bottleneck) - causes.CLEAR_LEAD
    level = [c.value for c in shares.of if c is not draft.bottleneck and shares.estimate(c) > close]
    other = HELD_UP.get(draft.bottleneck) if draft.cause is causes.BOTH_LEVEL.get(draft.bottleneck) else None
    if other is not None and other.value not in level:
        level.append(f"{other.value} by its range of {_percent(shares.of[other])}")
    if level or figures.rules < TOLD or shares.estimate(draft.bottleneck) < causes.DOMINANT:
        return f" (weak: no category dominates{', level with ' + ' and '.join(level) if level else ''})"
    if figures.contention is not None and figures.contention.matters:
        return f" (weak: {figures.contention.why})"
    if figures.profiled_otherwise:
        return " (weak: the step took far longer while it was profiled than the profiler explains)"
    return "" if draft.bound is Bound.UNDETERMINED else " (weak)"


def _fix(draft: VerdictDraft, figures: StepFigures) -> tuple[str, ...]:
    """What the gain supposes, what its range is, and how far that held for functions that no rule had met."""
    gain, rules = draft.gain, figures.rules
    if not draft.predicted:
        told = rules >= NEEDED and draft.bottleneck in KERNELS and draft.bound is not Bound.SOFTWARE and gain.high > 1.0
        return (f"gain {gain.estimate:.2f} [{gain.low:.2f}, {gain.high:.2f}] supposes: {SAME_WORK}",) if told else ()
    level = draft.cause in causes.BOTH_LEVEL.values()
    cases = len(recorded(rules, level=level))
    kept = f"{COVERED:.0%} of gains lie in such a range by {cases} recorded cases"
    if cases < FEWEST:
        kept = f"the range holds {cases} recorded cases of two level causes, too few for nine in ten"
    if rules >= NEEDED:
        kept = f"{kept}; a step that is written in another way may gain far more"
    if rules >= HOST_ENDS:
        inside, among = first_met(rules, on_device=figures.book.tiling.on_device)
        kept = f"{kept}: of functions that no rule had met, {inside} of {among} gains lay in their range"
    return (f"gain {gain.estimate:.2f} [{gain.low:.2f}, {gain.high:.2f}] supposes: {draft.cause.fix}; {kept}",)


def _percent(share: Interval) -> str:
    low, high = round(share.low * 100), round(share.high * 100)
    return f"{low}–{high} %" if high - low >= 2 else f"{round(share.estimate * 100)} %"


def _behind(draft: VerdictDraft, figures: StepFigures, taken_as_needed: bool) -> dict[Layer, str]:
    """The cause first, its rivals, then the causes of other categories that take a tenth of the step or more."""
    reasons: dict[Layer, str] = {}
    shares = figures.shares
    if draft.cause.layer is not None:
        reasons[draft.cause.layer] = figures.reason_of(draft.cause)
    if taken_as_needed:
        usual = dict(draft.cause.rivals).get(Layer.APPLICATION)
        reasons[Layer.APPLICATION] = NEEDLESS if usual is None else f"{NEEDLESS}; {usual}"
    for layer, reason in (*draft.rivals, *draft.cause.rivals):
        reasons.setdefault(layer, reason)
    for category in sorted(shares.of, key=lambda c: -shares.estimate(c)):
        cause = causes.CAUSES[category]
        if category is draft.bottleneck or cause.layer is None or shares.estimate(category) < causes.CLEAR_LEAD:
            continue
        reasons.setdefault(cause.layer, cause.takes(_percent(shares.of[category])))
    return reasons


def list_operators(book: TimeBook) -> tuple[OperatorTime, ...]:
    """Every operator, all shapes of one name and category together, those that take most first."""
    merged: dict[tuple[str, Category], list[OperatorGroup]] = {}
    for group in book.groups:
        merged.setdefault((group.name, group.category), []).append(group)
    steps, wall = len(book), float(book.wall_ns.sum())
    rows = []
    for (name, category), groups in merged.items():
        took = sum(group.self_ns for group in groups)
        known = [group for group in groups if group.attainable_ns is not None]
        known_ns = sum(group.self_ns for group in known)
        rows.append(
            OperatorTime(
                name=name,
                category=category,
                calls_per_step=sum(group.calls for group in groups) / steps,
                ms_per_step=took / steps / 1e6,
                share=took / wall if wall else 0.0,
                efficiency=sum(g.attainable_ns or 0.0 for g in known) / known_ns if known_ns > 0 else None,
            )
        )
    rows.sort(key=lambda row: (-row.ms_per_step, row.name))
    return tuple(rows)


# --- steps that the operating system accounted for, and requests of a server -----------------------------------------


def say_accounts(
    record: ResourceRecord, contention: Contention | None, judgement: causes.Judgement, *, owner: Owner
) -> Attribution:
    """The attribution of a callable's steps."""
    top = judgement.bottleneck
    wall_ms = float(np.median([step.wall_ns for step in record.steps])) / 1e6
    text = _OF_ACCOUNT.get(top, "{0} of a step").format(f"{round(judgement.shares[top] * 100)} %")
    open_end = "whether hardware or code bounds it, counters cannot say"
    sentence = f"{text}; {open_end if top is Category.COMPUTE else judgement.reason}"
    evidence = account_evidence(record, contention, wall_ms)
    return _attribution(judgement, owner, sentence, evidence, wall_ms, len(record.steps))


def say_requests(
    split: RequestSplit, judgement: causes.Judgement, moving: Sequence[Correlation] = (), *, owner: Owner
) -> Attribution:
    """The attribution of served requests, with the telemetry that moves with their latency."""
    phase, layer = split.longest, PHASES[split.longest].layer
    inside = phase in ("prefill", "decode", "inference") and not split.damaged
    points = f"; it points to layer {layer}" if inside else ""
    sentence = f"{phase} takes {split.share(phase):.0%} of a request{points}: {judgement.reason}"
    evidence = request_evidence(split, moving)
    return _attribution(judgement, owner, sentence, evidence, split.whole_s * 1e3, split.requests)


def say_server(
    figures: ServedFigures,
    verdict: ServerVerdict,
    split: RequestSplit | None,
    moving: Sequence[Correlation] = (),
    *,
    owner: Owner,
) -> Attribution:
    """The attribution of served requests by what bounds their server; how a request divides is evidence."""
    phases = () if split is None else request_evidence(split, moving)
    evidence = (*server_evidence(figures, verdict), *phases)
    load = figures.load
    return _attribution(
        verdict.judgement, owner, server_sentence(verdict), evidence, load.latency_s * 1e3, load.requests
    )


def _attribution(
    judgement: causes.Judgement, owner: Owner, sentence: str, evidence: tuple[str, ...], wall_ms: float, steps: int
) -> Attribution:
    return Attribution(
        bottleneck=judgement.bottleneck,
        bound=judgement.bound,
        layer=judgement.layer,
        owner=owner(judgement.layer) if judgement.layer is not None else None,
        symptom_layer=judgement.symptom,
        shares=dict(judgement.shares),
        gain_if_removed=judgement.gain,
        evidence=evidence,
        weak=judgement.weak,
        sentence=f"{_lead(judgement.bound)}: {sentence}",
        next_step=judgement.next_step,
        candidates=_candidates(judgement.candidates, owner),
        wall_ms_per_step=wall_ms,
        steps=steps,
    )
