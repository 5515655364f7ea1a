"""A foreign result: what it fails to state stands above its figures."""

from lynxbench.model.entries import ForeignImported
from lynxbench.report import words
from lynxbench.report.doc import Facts, Report, Table, Tone, Verdict, said

LONGEST_VALUE = 60


def compose_foreign(foreign: ForeignImported) -> Report:
    """What is missing, then the figures, then what was stated."""
    missing = ", ".join(foreign.missing) or "nothing"
    beside = ("Use", "It can be shown beside our results, never compared with them.")
    verdict = Verdict(f"not stated: {missing}", f"foreign ({words.clean(foreign.tool)})", Tone.WARN, (beside,))
    figures = [
        (said(name), words.digits(figure.estimate, 4), said(figure.unit), "no interval")
        for name, figure in foreign.figures.items()
    ]
    stated = [
        (words.clean(name), said(words.value_text(value, LONGEST_VALUE))) for name, value in foreign.stated.items()
    ]
    head = ("Figure", "Estimate", "Unit", "Interval")
    return Report("Foreign result", (verdict, Table(head, figures, "Figures", (1,)), Facts(stated, "Stated")))
