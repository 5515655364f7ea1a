"""What changed between two traces, in words."""

from lynxbench.attribute.judge.step_changes import StepDifference
from lynxbench.attribute.say.verdict_lines import Owner
from lynxbench.model.trace_detail import TraceChange


def say_change(difference: StepDifference, before: str, *, owner: Owner) -> TraceChange:
    """The difference as it is shown; `before` is what the earlier trace is called."""
    leading = difference.leading
    layers = leading.layers if leading is not None else {}
    layer = next(iter(layers), None) if leading is not None and leading.certain else None
    return TraceChange(
        before=before,
        before_ms=difference.before.step_ms,
        after_ms=difference.after.step_ms,
        sentence=_sentence(difference),
        layer=layer,
        owner=owner(layer) if layer is not None else None,
        suspects=tuple((suspect, owner(suspect), why) for suspect, why in layers.items()),
        parts=tuple((part.words, part.ms) for part in difference.parts),
        operators=difference.operators,
    )


def _sentence(difference: StepDifference) -> str:
    before, after, leading = difference.before.step_ms, difference.after.step_ms, difference.leading
    ratio = f", {after / before - 1:+.1%}" if before > 0 else ""
    text = f"a {difference.after.unit} takes {after:.3g} ms, {before:.3g} before ({difference.ms:+.3g} ms{ratio})"
    if leading is None:
        return f"{text}: {difference.reason}"
    known = difference.before.half_width_ms is not None and difference.after.half_width_ms is not None
    doubt = "" if known else f"; too few {difference.after.unit}s to say how much of that is chance"
    return f"{text}; most of it is {leading.words} ({leading.ms:+.3g} ms){doubt}"
