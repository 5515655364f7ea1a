"""The views of a trace: what is said, escaped, and drawn whatever the figures are."""

from __future__ import annotations

import re

import pytest

from lynxbench.model.attribution import Attribution, Bound, CandidateLayer, Category, Intervention, OperatorTime
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.trace_detail import Detail, Movement, RooflinePoint, StepTime, Stretch, WorstGap
from lynxbench.report.documents.trace_document import RankRow, TraceView, compose_trace
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.trace_plots import draw_gap, draw_roofline, draw_steps

HOSTILE = "<script>alert(1)</script>\x1b[31m"
STEPS = tuple(StepTime(i, 2.0 + i, {Category.COMPUTE: 1.5, Category.LAUNCH: 0.5 + i}) for i in range(5))
GAP = WorstGap(
    3,
    Category.LAUNCH,
    20.0,
    60.0,
    (
        Stretch("category", "launch", Category.LAUNCH, 0.0, 100.0),
        Stretch("device", HOSTILE, None, 0.0, 20.0),
        Stretch("host", "aten::linear", None, 5.0, 90.0),
        Stretch("host", "aten::addmm", None, 10.0, 30.0),
    ),
)
DOTS = (
    RooflinePoint("aten::mm", Category.COMPUTE, 120.0, 8e13, 1e14, 0.5),
    RooflinePoint(HOSTILE, Category.MEMORY_BANDWIDTH, 0.2, 4e11, 8e11, 0.1),
)
DETAIL = Detail(
    device="NVIDIA H200",
    steps=STEPS,
    gap=GAP,
    points=DOTS,
    movements=(Movement("Memcpy HtoD (Pageable -> Device)", 2.0, 1.0, 3e7), Movement("x", 1, 0, None)),
    arithmetic_per_s=1e14,
    bytes_per_s=4e12,
)


def attribution(layer: Layer | None = Layer.RUNTIME) -> Attribution:
    return Attribution(
        bottleneck=Category.LAUNCH,
        bound=Bound.SOFTWARE if layer else Bound.UNDETERMINED,
        layer=layer,
        owner="the kernel team" if layer else None,
        symptom_layer=Layer.SYSTEM if layer else None,
        shares={Category.LAUNCH: 0.7, Category.COMPUTE: 0.3},
        gain_if_removed=Interval(1.5, 2.5, 3.3),
        evidence=("5 steps", HOSTILE),
        sentence="software-bound: kernel launch and framework dispatch take 70 % of a step",
        next_step="compile the step",
        candidates=(CandidateLayer(layer=Layer.APPLICATION, owner="research", reason="a larger batch"),),
        wall_ms_per_step=3.0,
        unprofiled_ms_per_step=2.5,
        steps=5,
        operators=(
            OperatorTime(
                name="aten::mm", category=Category.COMPUTE, calls_per_step=3, ms_per_step=1, share=0.3, efficiency=0.8
            ),
            OperatorTime(name=HOSTILE, category=Category.LAUNCH, calls_per_step=3, ms_per_step=1, share=0.3),
        ),
    )


def view(**changes: object) -> TraceView:
    values: dict[str, object] = {
        "source": f"trace {HOSTILE}.json",
        "version": "1",
        "attribution": attribution(),
        "detail": DETAIL,
        "swaps": (("compute ×2", Interval(1.0, 1.02, 1.06)),),
        "swap_sentence": "estimate: compute ×2 gains at most 6 %; the fix gains 1.5 to 3.3×",
        "ranks": (RankRow(0, 3.0, 2.0, 1.0, "launch", "straggles"), RankRow(1, None, None, None, "not read", "cut")),
        "rank_lines": ("rank 0 straggles",),
    }
    return TraceView(**(values | changes))  # type: ignore[arg-type]


def page_of(given: TraceView) -> str:
    return render_html(compose_trace(given))


def test_the_page_says_everything_and_runs_nothing() -> None:
    page = render_html(compose_trace(view()))
    assert "<script" not in page
    assert "\x1b" not in page
    for words in ("compile the step", "the kernel team", "NVIDIA H200", "Worst gap", "Roofline", "rank 0 straggles"):
        assert words in page
    assert "at most 6 %" in page
    assert "Estimates" in page
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page.count("<svg") == 8  # four plots, each for a desk and for a phone


def test_what_is_missing_is_left_out() -> None:
    bare = page_of(
        view(
            attribution=attribution(None).model_copy(update={"operators": (), "candidates": ()}),
            detail=Detail(),
            swaps=(),
            ranks=(),
            rank_lines=(),
        )
    )
    assert "no owner is named" in bare
    assert bare.count("<svg") == 2
    for heading in ("Worst gap", "Roofline", "Ranks", "What if", "Copies"):
        assert f">{heading}<" not in bare


def test_the_terminal_gives_the_verdict_first_and_keeps_the_width() -> None:
    for width in (80, 120):
        text = render_terminal(compose_trace(view()), width=width)
        lines = text.splitlines()
        assert lines[lines.index("") + 1].startswith("SOFTWARE-BOUND: kernel launch")
        plain = " ".join(text.split())
        assert "Cause owned by runtime → the kernel team Symptom seen in system" in plain
        assert "Next step compile the step; predicted 1.5–3.3× if the bottleneck were removed" in plain
        assert "\x1b" not in text
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("bound", "category", "high", "words"),
    [
        (Bound.HARDWARE, Category.COMPUTE, 1.12, "left to gain with the same work 1.00–1.12×, with less work unknown"),
        (Bound.UNDETERMINED, Category.COMPUTE, 1.31, "left to gain with the same work 1.00–1.31×, with less work"),
        (Bound.UNDETERMINED, Category.LAUNCH, 1.31, "predicted 1.00–1.31× if the bottleneck were removed"),
    ],
)
def test_a_gain_without_a_named_fix_is_no_bound_on_other_code(
    bound: Bound, category: Category, high: float, words: str
) -> None:
    said = attribution(Layer.ACCELERATOR).model_copy(
        update={"bound": bound, "bottleneck": category, "gain_if_removed": Interval(1.0, 1.0, high)}
    )
    text = " ".join(render_terminal(compose_trace(view(attribution=said)), width=120).split())
    assert words in text
    fixed = "the fix: compile the step" in text
    assert fixed is (category is Category.LAUNCH)
    unknown = said.model_copy(update={"gain_if_removed": Interval(1.0, 1.0, 1.0)})
    silent = " ".join(render_terminal(compose_trace(view(attribution=unknown)), width=120).split())
    assert ("1.00" in silent.partition("Next step")[2][:120]) is (bound is Bound.HARDWARE)


def test_a_gain_is_measured_only_where_an_intervention_measured_it() -> None:
    gain, other = Interval(1.4, 1.5, 1.6), Interval(1.0, 1.1, 1.2)
    test = Intervention(name="replay as a graph", predicted=Interval(1.5, 2.2, 3.3), measured=gain)
    tried = attribution(Layer.RUNTIME).model_copy(update={"gain_if_removed": gain, "interventions": (test,)})
    open_ = tried.model_copy(update={"interventions": (test.model_copy(update={"measured": other}),)})
    shown = [
        " ".join(render_terminal(compose_trace(view(attribution=said)), width=120).split()) for said in (tried, open_)
    ]
    assert "measured 1.40–1.60× where the bottleneck was removed" in shown[0]
    assert "predicted 1.40–1.60× if the bottleneck were removed" in shown[1]


def test_pictures_stay_inside_their_frame() -> None:
    for width in (WIDE, NARROW):
        for picture in (
            draw_steps(STEPS, "t", width),
            draw_gap(GAP, "t", width),
            draw_roofline(DOTS, 1e14, 4e12, "t", width),
            draw_roofline((), 1e9, 1e9, "t", width),
            draw_steps((), "t", width),
        ):
            assert "nan" not in picture
            assert "inf" not in picture.replace("info", "")
            for x, w in re.findall(r'<rect x="([-\d.]+)" y="[-\d.]+" width="([\d.]+)"', picture):
                assert -0.1 <= float(x) <= width
                assert float(x) + float(w) <= width + 1
