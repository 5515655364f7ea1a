"""What a step must do at the least, known from its workload where a trace does not tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepWork:
    """Bytes that a step cannot but read and operations that its products cannot but do, and what was counted."""

    read_bytes: float
    operations: float
    how: str
