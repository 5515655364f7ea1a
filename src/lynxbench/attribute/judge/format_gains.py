"""Products in an element type that is wider than it need be, and what they gain in a narrower one."""

from collections.abc import Iterator

from lynxbench.attribute.judge.causes import (
    CLEAR_LEAD,
    DOMINANT,
    HALF_REMOVED,
    NARROWER,
    WIDER,
    CategoryCause,
    speedup,
)
from lynxbench.attribute.judge.roofline import TYPICAL_EFFICIENCY, WIDE, Ceilings
from lynxbench.attribute.judge.step_figures import REPLAYED, TOLD, WORTH_CHANGING, StepFigures
from lynxbench.attribute.judge.time_book import KERNELS
from lynxbench.model.attribution import FAR_BELOW_CEILING, Category
from lynxbench.model.interval import Interval
from lynxbench.model.precision import Precision

WORTH_NARROWING = 2.0
"""TF32 must be this much faster on a bare product before it is proposed."""


WHOLE_NUMBERS = ("long int", "int", "short int")
"""The profiler's words for whole numbers, which no library of products takes on a CPU."""


def gain_of_contracts_format(figures: StepFigures, dtypes: tuple[str, ...] = (WIDE,)) -> Interval | None:
    """What a step on a CPU gains whose products are in 64 bits, though the contract asks for fewer; None where little.

    Their own ceiling need not be known: they are held against that of the contract's precision. Passes over such
    numbers move half as much.
    """
    book, fast = figures.book, figures.book.ceilings.named("matmul", figures.book.ceilings.precision)
    if figures.host is None or not fast:
        return None
    wide = [(g, g.work) for g in book.groups if g.category in KERNELS and g.work is not None and g.work.dtype in dtypes]
    products = [(g, work) for g, work in wide if g.category is Category.COMPUTE]
    wall_ns = float(book.wall_ns.sum())
    share = sum(g.self_ns for g, _ in products) / wall_ns if wall_ns else 0.0
    if share < DOMINANT:
        return None
    least = sum(work.flops * g.calls for g, work in products) / fast * 1e9 / wall_ns
    passes = HALF_REMOVED * sum(g.self_ns for g, _ in wide if g.category is not Category.COMPUTE) / wall_ns
    usual, most = (max(0.0, share - least / reached) + passes for reached in (TYPICAL_EFFICIENCY, 1.0))
    gain = figures.range_over(usual * figures.host.step_ns, most * figures.host.step_ns)
    return gain if gain.estimate >= WORTH_CHANGING else None


def narrower_formats(ceilings: Ceilings, rules: int) -> Iterator[tuple[CategoryCause, str, Precision]]:
    """Element types wider than what the contract asks for, with the precision that would do instead."""
    if ceilings.precision is Precision.FP32:
        yield NARROWER, "float", Precision.TF32
    if rules < 3:
        return
    yield WIDER, WIDE, ceilings.precision
    if ceilings.precision in (Precision.BF16, Precision.FP16):
        yield WIDER, "float", ceilings.precision


def gain_of_narrower(figures: StepFigures, wide: str, precision: Precision, rules: int) -> Interval | None:
    """What products of a wide element type would gain at a narrower precision; None where that is not worth a word.

    At the least they come as far below the narrow ceiling as is still a fast path; at the most they reach it, and the
    host's work hides behind the device's.
    """
    book = figures.book
    slow, fast = book.ceilings.arithmetic_per_s(wide), book.ceilings.named("matmul", precision)
    if not slow or not fast or fast < WORTH_NARROWING * slow:
        return None
    products = [
        g for g in book.groups if g.category is Category.COMPUTE and g.work is not None and g.work.dtype == wide
    ]
    # A product faster than its own ceiling already took the narrow path, whatever the flags say.
    taken = [g for g in products if g.efficiency is not None and g.efficiency <= 1.0 + CLEAR_LEAD]
    if rules >= TOLD:  # what runs far below the ceiling of its own format is slow for another reason
        taken = [g for g in taken if g.efficiency is not None and g.efficiency >= FAR_BELOW_CEILING]
    wall_ns = float(book.wall_ns.sum())
    share = sum(g.self_ns for g in taken) / wall_ns if wall_ns else 0.0
    if share < DOMINANT:
        return None
    if rules < 3:
        usual = share * (1.0 - min(1.0, slow / (fast * TYPICAL_EFFICIENCY)))
        return Interval(speedup(usual * HALF_REMOVED), speedup(usual), speedup(share * (1.0 - slow / fast)))
    least = sum(g.attainable_ns or 0.0 for g in taken) / wall_ns * slow / fast
    slowest, usual = (max(0.0, share - least / reached) for reached in (FAR_BELOW_CEILING, TYPICAL_EFFICIENCY))
    others = max(0.0, figures.shares.total(*KERNELS) - share)
    if rules >= REPLAYED:
        return figures.range_without(figures.bare_ns(usual * book.usual_ns))
    return Interval(speedup(slowest), speedup(usual), max(speedup(usual), 1.0 / (others + least)))
