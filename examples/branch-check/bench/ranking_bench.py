"""What is measured: functions without arguments, at the top of a module."""

import numpy as np
from scoring.features import look_up
from scoring.ranking import rank

BATCH = np.random.default_rng(1).standard_normal((48, 48)).astype(np.float32)


def rank_batch() -> None:
    """One call is one batch."""
    rank(BATCH)


def look_up_batch() -> None:
    """One call is one batch."""
    look_up()
