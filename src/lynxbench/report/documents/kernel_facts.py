"""The kernels of a server, as its own profiler showed them in a pass after the load."""

from collections.abc import Sequence

from lynxbench.model.evidence_gate import Shortfall, without_blame
from lynxbench.model.server_profile import ServerKernels
from lynxbench.report import doc, words
from lynxbench.report.doc import Span, Tone
from lynxbench.report.words import clean

MOST_OPERATORS = 12


def kernel_text(kernels: ServerKernels, short_of: Sequence[Shortfall] = ()) -> Span:
    """What they were, whose they are where the evidence carries it, and how the trace lies over its pass's requests."""
    if kernels.attribution is None or kernels.join is None:
        return Span(f"not seen: {clean(kernels.missing)}", Tone.WARN)
    attribution, join = without_blame(kernels.attribution, short_of), kernels.join
    busy = f"{words.percent(join.busy)} of the time with a request open"
    where = "" if attribution.layer is None else f"; layer {attribution.layer.value} → {clean(attribution.owner or '')}"
    asked = words.count(join.requests, "request")
    return Span(
        f"{busy}, {asked} open during the trace ({clean(kernels.device or 'no device in it')}); "
        f"{clean(attribution.sentence)}{where}. From a pass of {words.seconds_text(kernels.duration_s)} after the load "
        "with the server's profiler on: shares of its own time, no figure of the load",
        Tone.PLAIN,
    )


def kernel_table(kernels: ServerKernels) -> doc.Table:
    """The operators that took most of a step."""
    operators = kernels.attribution.operators[:MOST_OPERATORS] if kernels.attribution is not None else ()
    rows = [
        (
            clean(each.name),
            clean(each.category.value),
            words.digits(each.calls_per_step, 3),
            words.digits(each.ms_per_step, 4),
            words.percent(each.share),
        )
        for each in operators
    ]
    return doc.Table(("Kernel", "Class", "Calls a step", "ms a step", "Share"), rows, right=(2, 3, 4))
