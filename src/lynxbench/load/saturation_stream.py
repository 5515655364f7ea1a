"""What a search asks of whoever sends its probes, and whom it tells how far it is."""

from collections.abc import Callable
from typing import Protocol

from lynxbench.load.saturation_result import Saturation
from lynxbench.model.samples import Float64


class Stream(Protocol):
    """A running open-loop probe at one rate. Requests cannot be taken back: each take adds to the ones before."""

    def take(self, requests: int) -> Float64:
        """Latencies of the next so many scheduled requests in order of arrival, seconds; infinite where one failed.

        One column a bound, or one dimension for a single bound. Errors, timeouts and unsent requests are infinite.
        """

    def end(self) -> float:
        """Stop and let the server come to rest, so that probes are independent; the seconds that this probe took."""


Start = Callable[[float], Stream]
"""Start a fresh, independent probe at a rate."""
SoFar = Callable[[Saturation], None]
"""Told after every probe what could be stated if the search ended there."""
