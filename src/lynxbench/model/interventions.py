"""Causes that an engine can remove for real, to test what an attribution says."""

from enum import StrEnum


class Change(StrEnum):
    """One thing that is changed in a step while everything else stays."""

    REPLAY = "replay as a CUDA graph"
    COMPILE = "compile the step"
    PRESTAGE = "prestage the inputs"
    PIN = "pin the transfers"
    NO_TRANSFER = "remove the transfers"
    NO_SYNC = "remove the synchronisation"
    DOUBLE_BATCH = "double the batch"
    STEP_PRECISION = "step the precision"


class InterventionScope(StrEnum):
    """Which changes are tried."""

    VERDICT = "verdict"
    """Those that speak for or against the bottleneck that was named."""
    ALL = "all"
    """Every one that the engine can make."""
