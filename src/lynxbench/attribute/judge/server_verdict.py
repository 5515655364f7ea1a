"""From the limits that show to one verdict on a server: the one that gains most, two that are level, or none."""

from dataclasses import dataclass

from lynxbench.attribute.judge.causes import CLEAR_LEAD, NO_GAIN, Judgement
from lynxbench.attribute.judge.served_limits import find_ceiling, find_demand, find_limits, floor_share
from lynxbench.attribute.judge.served_requests import PHASES
from lynxbench.attribute.judge.server_figures import Limit, ServedFigures
from lynxbench.attribute.tile.other_clients import FEWEST_LOOKS
from lynxbench.attribute.tile.request_split import RequestSplit
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.layers import Layer


@dataclass(frozen=True, slots=True)
class ServerVerdict:
    """What bounds a server, before it is put into words."""

    judgement: Judgement
    lead: Limit | None
    level: tuple[Limit, ...]
    """Limits that gain as much as the leading one, within what can be told apart."""
    others: tuple[Limit, ...]


def judge_server(figures: ServedFigures, split: RequestSplit | None) -> ServerVerdict:
    """The verdict on a server whose series were kept; doubt names nobody."""
    doubt = _doubt(figures)
    limits = find_limits(figures)
    shares = _shares(split)
    if doubt:
        step = ALONE if figures.others else "measure again, for longer, and keep the server up"
        return ServerVerdict(_open(doubt, shares, limits, step), None, (), tuple(limits))
    if not limits:
        lead = find_ceiling(figures) or find_demand(figures)
        if lead is None:
            return ServerVerdict(_open(_nothing(figures), shares, [], NEXT), None, (), ())
        return ServerVerdict(_judgement(lead, (), shares, figures, ()), lead, (), ())
    lead, *rest = limits
    level = tuple(limit for limit in rest if lead.share - limit.share < CLEAR_LEAD) if not _is_held(lead) else ()
    others = tuple(limit for limit in rest if limit not in level)
    return ServerVerdict(_judgement(lead, level, shares, figures, others), lead, level, others)


NEXT = "have the server's own kernels traced (its profiler), and give the trace to `lynxbench trace`"
ALONE = "measure again while nobody else asks the server"
HELD = ("neighbour", "clock", "power")


def _is_held(limit: Limit) -> bool:
    """Conditions of the device distort every other quantity: none is level with them."""
    return limit.cause.name in HELD


def _judgement(
    lead: Limit,
    level: tuple[Limit, ...],
    shares: dict[Category, float],
    figures: ServedFigures,
    others: tuple[Limit, ...],
) -> Judgement:
    layers = {limit.cause.layer for limit in (lead, *level)}
    layer = lead.cause.layer if len(layers) == 1 else None
    steps = [limit.cause.step_for(figures.series.server) for limit in (lead, *level)]
    candidates: dict[Layer, str] = {}
    for limit in (lead, *level, *others):
        candidates.setdefault(limit.cause.layer, limit.says)
    return Judgement(
        bottleneck=lead.cause.category,
        bound=lead.cause.bound,
        layer=layer,
        symptom=Layer.SERVING if layer not in (None, Layer.SERVING) else None,
        weak=bool(level) or not lead.sure,
        shares=shares or {lead.cause.category: 1.0},
        gain=lead.gain,
        next_step="; and ".join(steps),
        candidates=candidates,
        reason=lead.cause.why,
    )


def _open(reason: str, shares: dict[Category, float], limits: list[Limit], step: str) -> Judgement:
    top = max(shares, key=lambda category: shares[category], default=Category.UNATTRIBUTED)
    return Judgement(
        bottleneck=top,
        bound=Bound.UNDETERMINED,
        layer=None,
        symptom=None,
        weak=True,
        shares=shares or {top: 1.0},
        gain=NO_GAIN,
        next_step=step,
        candidates={limit.cause.layer: limit.says for limit in reversed(limits)},
        reason=reason,
    )


def _doubt(figures: ServedFigures) -> str:
    series = figures.series
    if series.restarted:
        return "the server's counters went back while it was asked: it was restarted"
    if series.looks < FEWEST_LOOKS:
        return f"the server's series hold {series.looks} looks at the counted time, too few to tell a queue by"
    return figures.others


def _nothing(figures: ServedFigures) -> str:
    """Why no limit is named."""
    if not figures.series.server:
        return "the server exposes no metrics that are known, so what stands in its queue and batch is not seen"
    if figures.activity is None or figures.activity.engine is None:
        return "no limit of the server shows, and no counters of its device were read"
    least, most = floor_share(figures.activity)
    return (
        f"no limit of the server shows; its device works {figures.busy:.0%} of the time, and by good kernels its work "
        f"would take {least:.0%} (memory and arithmetic at once) to {most:.0%} (in turns) of it: neither near nor far"
    )


def _shares(split: RequestSplit | None) -> dict[Category, float]:
    shares: dict[Category, float] = {}
    if split is not None and split.whole_s > 0:
        for phase in split.seconds:
            if split.share(phase) > 0:
                category = PHASES[phase].category
                shares[category] = shares.get(category, 0.0) + split.share(phase)
    return shares
