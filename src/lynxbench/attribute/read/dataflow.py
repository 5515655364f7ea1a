"""What was seen of values while a step ran operator by operator: what is computed twice, read by nobody, or zero."""

from typing import Annotated

import msgspec

FLOW_KEY = "lynxbenchDataflow"
"""Under this name it stands in a chrome trace, before the events."""


Count = Annotated[int, msgspec.Meta(ge=0)]
Part = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class OperatorFlow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls of one operator with operands of the same sizes, in one step."""

    name: str
    sizes: tuple[tuple[int, ...], ...]
    """Of its operands that are tensors, in their order."""
    calls: Annotated[int, msgspec.Meta(ge=1)]
    again: Count = 0
    """Those that computed what an earlier call of the step had computed from the same values."""
    unread: Count = 0
    """Those whose results no operator read before they were freed, or only operators of which that holds."""
    batches: Count = 0
    """Of products: how many are left where those are one that share their second factor and do not wait for each other;
    0 of anything else."""
    sums: Count = 0
    """Of products: how many are left where those are one whose results are only added together, and that do not wait
    for each other; 0 of anything else."""
    adding: Count = 0
    """Of additions: those that only put such products together."""
    nonzero: Part = 1.0
    """Of products: the share of a factor's elements that are not 0, of the emptier one."""
    zero_rows: Part = 0.0
    """Of products: the share of the first factor's rows that are 0 from end to end."""

    @property
    def key(self) -> tuple[str, tuple[tuple[int, ...], ...]]:
        """By what it is found in a trace: single numbers are tensors to the one and none to the other."""
        return self.name, tuple(size for size in self.sizes if size)


class Dataflow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operators of a step that have something to be said of them, seen over so many steps."""

    steps: int
    operators: tuple[OperatorFlow, ...] = ()
    whole: bool = True
    """Whether all of the step was seen: code that was compiled, replayed or not PyTorch's own is not."""
    why: str = ""
    """Where it was not: what hid it."""


def parse_dataflow(text: msgspec.Raw) -> Dataflow | None:
    """What a trace holds of it; None where that is none, as if it had not been recorded."""
    try:
        return msgspec.json.decode(text, type=Dataflow)
    except (msgspec.DecodeError, RecursionError):
        return None
