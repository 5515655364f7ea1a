"""The procurement pack as a document: decisions with everything they rest on, readable without any server."""

from typing import Annotated, Literal

from pydantic import Field

from lynxbench.model.comparison import Comparison
from lynxbench.model.decisions import PrecisionDecision, PurchaseDecision, WhatIf
from lynxbench.model.document import Document
from lynxbench.model.planning import CapacityPlan, CostReport
from lynxbench.model.result import Result
from lynxbench.model.standing import Standing

PackedDecision = Annotated[
    PurchaseDecision | CapacityPlan | CostReport | PrecisionDecision | WhatIf, Field(discriminator="kind")
]


class MethodNote(Document):
    """How one kind of figure was established."""

    title: str
    text: str


class Pack(Document):
    """One decision and all of its evidence."""

    schema_version: Literal[1] = 1
    title: str
    made_at: str
    lynxbench_version: str
    decided_by: str
    decisions: Annotated[tuple[PackedDecision, ...], Field(min_length=1)]
    comparison: Comparison | None
    results: tuple[Result, ...]
    standings: tuple[Standing, ...]
    methodology: tuple[MethodNote, ...]
    limitations: tuple[str, ...]
    invented: str = ""
    """Says so where the figures are an example and nobody measured them."""

    @property
    def cites(self) -> tuple[str, ...]:
        """Every result that a decision rests on, once."""
        return tuple(dict.fromkeys(result for decision in self.decisions for result in decision.cites))
