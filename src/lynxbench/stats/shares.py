"""Shares of right or wrong with 95 % intervals that stay sound near 0 and 1, alone and as paired differences."""

import math

from lynxbench.model.interval import Interval

Z_95 = 1.959964
"""Two-sided 95 % point of the normal distribution."""


def share_interval(right: int, total: int) -> Interval:
    """A share with its 95 % Wilson score interval (Wilson 1927), which stays sound near 0 and 1."""
    share, square = right / total, Z_95**2
    centre = (share + square / (2 * total)) / (1 + square / total)
    half = Z_95 * math.sqrt(share * (1 - share) / total + square / (4 * total**2)) / (1 + square / total)
    return Interval(min(max(0.0, centre - half), share), share, max(min(1.0, centre + half), share))


def paired_share_change(gained: int, lost: int, total: int) -> Interval:
    """How a share moved between two answers to the same questions, of which so many were gained and lost.

    Adjusted Wald interval of Bonett and Price (2012): one is added to both kinds of discordant pairs, so that no
    change seen in a few questions is not taken for none.
    """
    up, down, size = (gained + 1) / (total + 2), (lost + 1) / (total + 2), total + 2
    half = Z_95 * math.sqrt(max(up + down - (up - down) ** 2, 0.0) / size)
    change = (gained - lost) / total
    return Interval(max(-1.0, min(up - down - half, change)), change, min(1.0, max(up - down + half, change)))
