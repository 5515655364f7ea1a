"""A search as a picture: every trial's figure, and the confirmed one."""

from __future__ import annotations

import math

from lynxbench.model.tuning import TrialStatus, TuningDocument
from lynxbench.report.experiment_words import setting_words
from lynxbench.report.markup import Safe, tag
from lynxbench.report.svg.canvas import NARROW, Scale, axis_x, axis_y, padded, rule, svg, text
from lynxbench.report.words import digits


def draw_trials(tuning: TuningDocument, title: str, width: int) -> Safe:
    """One point a trial; the confirmed figure across."""
    known = [trial for trial in tuning.trials if trial.response is not None]
    if not known:
        return svg(width, 40, title, "no trial was measured", text(8, 24, "no trial was measured"))
    values = [trial.response for trial in known if trial.response is not None]
    confirmed = tuning.tuned.response.estimate if tuning.tuned is not None else math.nan
    ends = [*values, *([confirmed] if math.isfinite(confirmed) else [])]
    left, top, bottom = 64, 10, 200
    x = Scale(0.5, len(tuning.trials) + 0.5, left, width - 14)
    y = Scale(*padded(min(ends), max(ends)), bottom, top)
    parts: list[Safe] = [*axis_x(x, bottom, top, "trials", 8 if width > NARROW else 4), *axis_y(y, left, width - 14, 5)]
    for trial in known:
        css = "point" if trial.status is TrialStatus.MEASURED else "point open"
        tip = tag("title", f"trial {trial.number + 1}: {digits(trial.response, 4)}; {setting_words(trial.setting)}")
        parts.append(tag("circle", tip, cx=x(trial.number + 1), cy=y(trial.response or 0.0), r=3.4, class_=css))
    if math.isfinite(confirmed):
        parts.append(rule(left, y(confirmed), width - 14, y(confirmed), "mean"))
    return svg(width, 230, title, f"{len(known)} of {len(tuning.trials)} trials have a figure", parts)
