"""What an operator does to its operands, from its schema: which it writes, and whether it only looks at them anew."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from lynxbench.attribute.judge.unread_results import FACTORS

OWN = ("aten", "prims", "prim", "profiler")
"""Operators of these namespaces are PyTorch's own; `profiler` are annotations."""
OVERWRITING = frozenset(
    {"copy_", "fill_", "zero_", "bernoulli_", "normal_", "uniform_", "exponential_", "random_", "log_normal_"}
)
"""In place, and nothing of what was there is left; so are results given as `out`."""
BLANK = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})
"""They give memory that holds nothing yet."""
ASIDE = frozenset({"record_stream", "is_same_size", "is_pinned", "_fused_sdp_choice", "cudnn_is_acceptable"})
"""They ask about a tensor and not for its elements."""
COPIES = frozenset({"clone", "_to_copy", "copy", "lift_fresh_copy", "_pin_memory"})
"""Their results are as their operand: who writes to them, or keeps them, needs one of their own."""
ADDING = frozenset({"aten::add", "aten::add_"})
RUNNING = frozenset({"running_mean", "running_var"})
"""Written while training, whatever the schema of older operators says."""


@dataclass(frozen=True, slots=True)
class OperatorSchema:
    """One operator, overloads apart."""

    name: str
    """As the profiler writes it."""
    overload: str
    own: bool
    aside: bool
    views: bool
    """Its results lie in an operand's memory."""
    blank: bool
    copies: bool
    seeded: bool
    """It draws random numbers."""
    tells_host: bool
    """What the host does next may depend on elements."""
    places: dict[str, int]
    """Of its arguments, by name."""
    written: frozenset[int]
    overwritten: frozenset[int]
    running: frozenset[int]
    factors: tuple[int, int] | None
    unlisted: frozenset[int]
    """Lists of tensors of which some may be missing: the profiler does not record them."""
    adds: bool
    """It adds two tensors, and nothing is left of the one it is written to but the sum."""
    pointwise: bool
    """Each element of its result is made of those at the same place."""
    composed: bool
    """PyTorch makes it of others, which are seen one by one."""


@cache
def schema_of(operator: Any) -> OperatorSchema:
    """Of an `OpOverload`; AttributeError of anything else."""
    schema = operator._schema
    namespace, _, name = schema.name.partition("::")
    tags = set(operator.tags)
    places = {argument.name: place for place, argument in enumerate(schema.arguments)}
    written = {place for place, one in enumerate(schema.arguments) if one.alias_info and one.alias_info.is_write}
    if schema.is_mutable and not written:
        written = set(places.values())
    out = {place for place, one in enumerate(schema.arguments) if one.is_out}
    returns = [str(one.type) for one in schema.returns]
    host = bool(returns) and not any("Tensor" in word for word in returns)
    looks = bool(returns) and any(one.alias_info is not None for one in schema.returns) and not written
    return OperatorSchema(
        name=schema.name,
        overload=schema.overload_name,
        own=namespace in OWN,
        aside=name in ASIDE or namespace in ("prim", "profiler"),
        views=looks or torch.Tag.inplace_view in tags,
        blank=name in BLANK,
        copies=name in COPIES,
        seeded=torch.Tag.nondeterministic_seeded in tags,
        tells_host=host or bool(tags & {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}),
        places=places,
        written=frozenset(written),
        overwritten=frozenset(written if name in OVERWRITING else out),
        running=frozenset(place for word, place in places.items() if word in RUNNING),
        factors=FACTORS.get(schema.name),
        unlisted=frozenset(
            place for place, one in enumerate(schema.arguments) if str(one.type).startswith("List[Optional[Tensor")
        ),
        adds=schema.name in ADDING and schema.overload_name == "Tensor",
        pointwise=torch.Tag.pointwise in tags,
        composed=_is_composed(operator),
    )


def _is_composed(operator: Any) -> bool:
    if not operator.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
        return False
    return not any(torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key) for key in ("CPU", "CUDA"))
