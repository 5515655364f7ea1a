"""A verdict on served requests: queueing is demand's or capacity's, prefill arithmetic's, decode bandwidth's."""

from dataclasses import dataclass

from lynxbench.attribute.judge.causes import CLEAR_LEAD, DOMINANT, MOST_REMOVABLE, NO_GAIN, Judgement, is_close, speedup
from lynxbench.attribute.tile.request_split import RequestSplit
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.tables import read_table

FEWEST_REQUESTS = 5
"""With fewer, one odd request decides the split."""
UNEXPLAINED = 0.25
"""A remainder of this share keeps the verdict weak."""


@dataclass(frozen=True, slots=True)
class PhaseCause:
    """What a phase's time means: whose it is, why, and what shortens it."""

    category: Category
    bound: Bound
    """Undetermined for what a trace alone can hold to a ceiling: phases do not see kernels."""
    layer: Layer
    why: str
    next_step: str


PHASES: dict[str, PhaseCause] = {
    phase: PhaseCause(
        Category(keys["category"]), Bound(keys["bound"]), Layer(keys["layer"]), keys["why"], keys["next_step"]
    )
    for phase, keys in read_table("attribute/judge/phases.toml").items()
}


def judge_phases(split: RequestSplit) -> Judgement:
    """Whose time a request is; BadInput where the server counts none."""
    if split.whole_s <= 0:
        raise BadInput(f"{split.server} counts no time for its {split.requests} requests; nothing can be attributed")
    top = split.longest
    cause, share = PHASES[top], split.share(top)
    shares: dict[Category, float] = {}
    candidates: dict[Layer, str] = {}
    for phase in sorted(split.seconds, key=lambda phase: -split.seconds[phase]):
        category, part = PHASES[phase].category, split.share(phase)
        if part > 0:
            shares[category] = shares.get(category, 0.0) + part
        if part >= CLEAR_LEAD:
            candidates.setdefault(PHASES[phase].layer, f"{phase} {part:.0%}: {PHASES[phase].why}")
    if split.share("queueing") >= CLEAR_LEAD:
        more = "too few replicas or too small a batch limit: the same demand would fit"
        candidates.setdefault(Layer.SERVING, more)
    bound = cause.bound if share >= DOMINANT and not split.damaged else Bound.UNDETERMINED
    layer = cause.layer if bound is not Bound.UNDETERMINED else None
    close = is_close([split.share(phase) for phase in split.seconds])
    gain = Interval(1.0, 1.0 / (1.0 - min(share, MOST_REMOVABLE) / 2), speedup(share))
    return Judgement(
        bottleneck=cause.category,
        bound=bound,
        layer=layer,
        symptom=Layer.SERVING if layer not in (None, Layer.SERVING) else None,
        weak=close or split.damaged or split.share("unexplained") > UNEXPLAINED or split.requests < FEWEST_REQUESTS,
        shares=shares,
        gain=NO_GAIN if cause.bound is Bound.UNDETERMINED or split.damaged else gain,
        next_step="trace again: this trace is damaged or incomplete" if split.damaged else cause.next_step,
        candidates={} if split.damaged else candidates,
        reason="the trace is damaged or incomplete" if split.damaged else cause.why,
    )
