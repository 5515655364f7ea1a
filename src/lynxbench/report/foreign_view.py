"""A foreign result in a terminal: what it fails to state stands above its figures."""

from __future__ import annotations

import textwrap

from lynxbench.model.entries import ForeignImported
from lynxbench.report import words
from lynxbench.report.words import clean

SHOWN_TEXT = 60


def render_foreign(found: ForeignImported, *, width: int) -> str:
    """What is missing, then the figures, then what was stated."""
    missing = ", ".join(found.missing) or "nothing"
    lines = textwrap.wrap(
        missing,
        max(width, 60),
        initial_indent=f"FOREIGN ({clean(found.tool)}): not stated: ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )
    lines += ["  It can be shown beside our results, never compared with them.", ""]
    longest = max(map(len, found.figures))
    for name, figure in found.figures.items():
        lines.append(
            f"  {clean(name):<{longest}}  {words.digits(figure.estimate, 4)} {clean(figure.unit)}  no interval"
        )
    lines.append("")
    for name, value in found.stated.items():
        text = clean(str(value))
        lines.append(f"  {clean(name):<24} {text if len(text) <= SHOWN_TEXT else text[: SHOWN_TEXT - 1] + '…'}")
    return "\n".join(line.rstrip() for line in lines) + "\n"
