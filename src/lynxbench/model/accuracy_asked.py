"""What a contract asks about the answers beside their speed: a labelled task, and a fixed set answered greedily."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from lynxbench.model.document import Document
from lynxbench.model.fields import Count, Ratio, Sha256, Text, refuse


class ScorerName(StrEnum):
    """Scorers of the house; any other name is a function of the user, `module:function`."""

    EXACT = "exact"
    CHOICE = "choice"
    NUMERIC = "numeric"


Scorer = Annotated[str, Field(max_length=200, pattern=r"^(exact|choice|numeric|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)$")]


class LabelledTask(Document):
    """Labelled prompts in a file of lines, and how an answer is marked right or wrong."""

    file: Text
    sha256: Annotated[Sha256 | None, Field(exclude_if=lambda sha256: sha256 is None)] = None
    """Pins the file; its hash is recorded in any case."""
    scorer: Scorer = ScorerName.EXACT.value
    tolerance: Annotated[Ratio, Field(ge=0, le=1)] = 0.0
    answer_tokens: Annotated[int, Field(ge=1, le=4096)] = 32
    most: Annotated[Count | None, Field(exclude_if=lambda most: most is None)] = None
    """Only the first so many lines."""

    @model_validator(mode="after")
    def _tolerance_fits(self) -> LabelledTask:
        if self.tolerance and self.scorer != ScorerName.NUMERIC:
            refuse("only scorer numeric has a tolerance; leave it out", "tolerance")
        return self


class GreedySet(Document):
    """Seeded prompts of the bundled prose, answered greedily and kept as hashes, to be held against another server's.

    They are asked twice: what a server answers otherwise the second time is its own noise.
    """

    prompts: Annotated[int, Field(ge=2, le=1000)] = 64
    tokens: Annotated[int, Field(ge=1, le=512)] = 32


class AccuracyAsked(Document):
    """Asked after the measured load and outside of it."""

    task: Annotated[LabelledTask | None, Field(exclude_if=lambda task: task is None)] = None
    greedy: Annotated[GreedySet | None, Field(exclude_if=lambda greedy: greedy is None)] = None
    keep_text: bool = False
    """Whether answers are kept as text; without it only their hashes are."""

    @model_validator(mode="after")
    def _asks_something(self) -> AccuracyAsked:
        if self.task is None and self.greedy is None:
            refuse("names nothing to ask; give task, greedy or both", "task")
        return self
