"""What a search is held to, and what its probes are for."""

import math
from dataclasses import dataclass, field
from enum import Enum, auto

from lynxbench.load.saturation_judge import Confidence


class Purpose(Enum):
    """What a probe is for."""

    SCOUT = auto()
    CLAIM = auto()
    UPPER = auto()
    FOLLOW_UP = auto()


@dataclass(frozen=True, slots=True)
class SearchRule:
    """How exact, how sure, how long."""

    tolerance: float = 0.05
    confidence: Confidence = field(default_factory=Confidence)
    max_requests: int = 400 * 2**10
    min_seconds: float = 0.0
    """Each probe lasts at least so long."""
    max_probes: int = 30
    max_seconds: float = math.inf
    """No probe is begun, and none lengthened, beyond this."""

    def __post_init__(self) -> None:
        if not 0 < self.tolerance <= 1:
            raise ValueError(f"tolerance {self.tolerance} must lie between 0 and 1, such as 0.05")
