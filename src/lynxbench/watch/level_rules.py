"""What follows from a session: measure again at once, tell the owner, close, move the level. Pure.

One row a stream, as in `stats/sequential`: the server asks about one, a simulated year about hundreds.
"""

import math

import numpy as np

from lynxbench.stats.arrays import Floats
from lynxbench.stats.sequential import (
    SPANS,
    YEAR,
    Flags,
    Ints,
    LevelJudgement,
    SessionStreams,
    bound_of,
    judge_level,
    measure_return,
    measure_span,
)

FALSE_ALARMS = 0.004
"""Chance that an unchanged executor gets a notice within a year, for each contract, place and precision."""
SUSPECT = 2.0
"""Standard deviations below its level from which a session is measured again: a night in forty of an unchanged one."""
MOST_RESULTS = 3
"""Of a session: it is measured again once, and once more where that leaves it suspected and the alarm not confirmed."""
SURE = 0.025
"""Chance of being wrong that a recovery may have."""


def judge_streams(streams: SessionStreams, looks: float = YEAR) -> LevelJudgement:
    """The newest sessions against their level, at the stated rate of false alarms."""
    return judge_level(streams, FALSE_ALARMS, looks)


def is_alarm(judged: LevelJudgement, budget: float) -> Flags:
    """A loss that is no chance, and larger than the contract bears."""
    return (judged.loss.strength >= 1) & (judged.loss.change < math.log1p(-budget))


def is_suspect(judged: LevelJudgement, budget: float) -> Flags:
    """Whether the newest session is to be measured again at once, before anybody is told."""
    low = (judged.newest <= -SUSPECT * judged.sigma) & (judged.newest < math.log1p(-budget))
    return is_alarm(judged, budget) | low


def is_confirmed(judged: LevelJudgement, again: Floats, budget: float) -> Flags:
    """An alarm that stands with what was measured again, which by itself lies below the level too.

    `again` is the log figure of what was measured again, less that of the whole session it belongs to.
    """
    return is_alarm(judged, budget) & (judged.newest + again < 0)


def is_gain(judged: LevelJudgement, budget: float) -> Flags:
    """A gain over two weeks that is no chance: a new window may begin with the next sessions."""
    return (judged.gain.strength >= 1) & (judged.gain.change > -math.log1p(-budget))


def is_recovered(streams: SessionStreams, told: Floats, sessions: Ints, budget: float) -> Flags:
    """Whether less than half of the loss that was told is left, or less than the budget, of the sessions since then.

    Either the mean of a span shows it; or its sessions lie where those of the window lay, of which none was as low as
    that. A window whose sessions remember one another hardly knows its level, but how low it went it does.
    """
    bearable = np.maximum(told / 2, -math.log1p(-budget))
    recovered = np.zeros(len(told), dtype=np.bool_)
    for span in SPANS:
        measured = measure_span(streams, span)
        back, lowest = measure_return(streams, span)
        shown = (bound_of(measured, SURE) - measured.change < bearable) | (back & (lowest > -bearable))
        recovered |= (sessions >= span) & shown
    return recovered
