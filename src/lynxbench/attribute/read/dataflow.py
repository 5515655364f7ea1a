"""What was seen of values while a step ran operator by operator: what is computed twice, read by nobody, or zero."""

from typing import Annotated

import msgspec

FLOW_KEY = "lynxbenchDataflow"
"""Under this name it stands in a chrome trace, before the events."""

Key = tuple[str, tuple[tuple[int, ...], ...]]
"""An operator by its name and the sizes of its operands."""
FAR_FEWER = 4.0
"""Elements of a factor for each number that it was made of: with fewer, no other order gains much."""
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

    constant: Count = 0
    """Those that computed what the step before had computed from the same values, in a step with other inputs besides;
    not those that are `again`."""
    structured: Count = 0
    """Of products: those with a factor that the step had made of far fewer numbers than it has elements."""
    factored: Count = 0
    """… by repeating, adding and multiplying alone, so that a cheaper order of the same sums is known."""
    few: Part = 1.0
    """… the share of the elements that those numbers are."""
    sliced: Count = 0
    """Of operators that fetch by number: those whose numbers count up evenly, so that a slice is the same."""
    masked: Part = 0.0
    """Of products: the share of their results that the only operator which reads them multiplies by 0, or replaces."""
    masked_rows: Part = 0.0
    """… the share of rows of which it leaves nothing."""
    repeated: Part = 0.0
    """Of products: the share of rows that repeat another one, or that the product before it had with the same factor;
    of functions of each element what they are made of."""
    surely_repeated: Part = 0.0
    """… of those that fill up a batch, or that are taken up again in the same order: no accident of the data."""
    same_rows: Part = 0.0
    """… the share of rows that the step before had there too, with the same factor, among others that it had not."""
    partly: Part = 0.0
    """The share of its results that nobody needs, where somebody needs the rest."""
    perhaps: Part = 0.0
    """… that nobody may need, if what lies between takes as little as a look at its results says."""
    moved: Count = 0
    """Bytes that a call reads and writes at the least, where its index is no operand that the profiler records."""

    @property
    def key(self) -> Key:
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
    multiplies_anew: bool = True
    """Whether the second step multiplied or solved with values that the first did not have."""


def parse_dataflow(text: msgspec.Raw) -> Dataflow | None:
    """What a trace holds of it; None where that is none, as if it had not been recorded."""
    try:
        return msgspec.json.decode(text, type=Dataflow)
    except (msgspec.DecodeError, RecursionError):
        return None
