"""MLPerf's figures of a run, for whoever reads those; and in which ways they are none of MLPerf's."""

from lynxbench.model.mlperf_forms import EarlyStopping, MlperfFigures
from lynxbench.report import words
from lynxbench.report.doc import Fact, said

NO_RESULT = "not an MLPerf result"


def mlperf_facts(figures: MlperfFigures) -> list[Fact]:
    """The scenario's own figure, its early-stopping rule, and what is unlike MLPerf."""
    value = "unresolved" if figures.value is None else f"{words.digits(figures.value, 4)} {figures.unit}"
    return [
        (f"MLPerf {figures.form.label}", said(f"{figures.metric}: {value} ({NO_RESULT})")),
        *(
            (("Early stopping", *(said(early_text(rule)) for rule in figures.early_stopping)),)
            if figures.early_stopping
            else ()
        ),
        ("Unlike MLPerf", *(said(line) for line in figures.unlike)),
    ]


def early_text(rule: EarlyStopping) -> str:
    """One latency by MLPerf's rule, in LoadGen's terms."""
    head = f"p{rule.percentile:g} {rule.metric.replace('-', ' ')}, {words.number(rule.queries, 0)} queries"
    if rule.at_most_ms is not None:
        state = "satisfied" if rule.needed == 0 else f"not satisfied: {rule.needed} more queries within it would do"
        return f"{head}, {rule.over} over {words.digits(rule.at_most_ms)} ms: {state}"
    if rule.estimate_ms is None:
        more = f": {rule.needed} more are needed" if rule.needed else ": too many failed"
        return f"{head}{more}"
    return f"{head}, {rule.discarded} highest set aside: {words.digits(rule.estimate_ms, 4)} ms at 99 % confidence"
