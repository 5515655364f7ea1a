"""The words of an attribution: what time is spent on, and whose kind of problem that is."""

from enum import StrEnum


class Category(StrEnum):
    """Exclusive: every nanosecond of a step belongs to exactly one."""

    COMPUTE = "compute"
    MEMORY_BANDWIDTH = "memory_bandwidth"
    TRANSFER = "transfer"
    LAUNCH = "launch"
    SYNCHRONIZATION = "synchronization"
    ALLOCATOR = "allocator"
    INPUT = "input"
    COMMUNICATION = "communication"
    QUEUEING = "queueing"
    NETWORK = "network"
    IDLE = "idle"
    UNATTRIBUTED = "unattributed"


class Bound(StrEnum):
    """Whose kind of problem it is, before anyone chooses a remedy."""

    HARDWARE = "hardware"
    SOFTWARE = "software"
    DEMAND = "demand"
    UNDETERMINED = "undetermined"
