"""How many requests a second a server completes, from a closed loop.

Pure. A loop that is shorter than a few answers completes hardly one whole request, so whole ones are not counted: each
request counts for the share of its own time that lies in the window.
"""

import numpy as np
import numpy.typing as npt

from lynxbench.model.samples import Int64

Bools = npt.NDArray[np.bool_]

WARM_UP = 1 / 3
"""Share of a window left out at its start: requests that come all at once are not yet at their pace."""
ANSWERS = 2.0
"""A closed loop is believed where its counted window holds so many times the p99 of its answers."""


def completion_rate(sent_ns: Int64, last_ns: Int64, good: Bools, first_ns: int, end_ns: int) -> float:
    """Requests completed a second between two moments, those that were only partly in it by their part."""
    begins, ends = np.maximum(sent_ns, first_ns), np.minimum(last_ns, end_ns)
    shares = np.clip(ends - begins, 0, None) / np.maximum(last_ns - sent_ns, 1)
    return float(shares[good].sum()) / ((end_ns - first_ns) / 1e9)


def window_needed_s(sent_ns: Int64, last_ns: Int64, good: Bools) -> float:
    """How long a closed loop must last to be believed, by the answers that it got; 0 without any."""
    if not good.any():
        return 0.0
    p99_s = float(np.quantile((last_ns - sent_ns)[good], 0.99, method="higher")) / 1e9
    return ANSWERS * p99_s / (1 - WARM_UP)
