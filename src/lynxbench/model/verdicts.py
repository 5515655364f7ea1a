"""Words that several rooms end in. Doubt is an answer."""

from enum import StrEnum


class SteadyVerdict(StrEnum):
    """Whether a series has settled."""

    STEADY = "steady"
    NOT_STEADY = "not steady"
    INCONCLUSIVE = "inconclusive"


class ValidityVerdict(StrEnum):
    """Whether the figures may be used at all."""

    VALID = "valid"
    DOUBTFUL = "doubtful"
    VOID = "void"


WORST_FIRST = (SteadyVerdict.NOT_STEADY, SteadyVerdict.INCONCLUSIVE, SteadyVerdict.STEADY)
