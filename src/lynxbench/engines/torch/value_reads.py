"""How much of a result anybody needs: the last position of all, a few columns, the first rows.

A view that an operator takes shows how many elements it reads, and where it makes one row of each of its operand's
(products, functions of each element, norms), no more rows are needed of what it reads than of what it makes. So it is
followed backwards from what the step returns, leaves or tells the host. Shares of several readers are added, since they
may read other parts; and what is told to the host, or a single number that is returned, stands for all of it: steps are
ended so to wait for the device.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lynxbench.attribute.read.dataflow import Key
from lynxbench.engines.torch.value_calls import NOBODY, Extent, FollowedStep, Memory, Passing, Read
from lynxbench.engines.torch.value_memory import Memories
from lynxbench.engines.torch.value_schema import OperatorSchema
from lynxbench.engines.torch.value_structure import PICKING
from lynxbench.engines.torch.value_tensors import storage_of, whole_of

NORMS = {"aten::native_layer_norm": 1, "aten::_softmax": 1, "aten::_log_softmax": 1}
"""The place of the argument that says what they go over."""
ATTENTION = frozenset(
    f"aten::_scaled_dot_product_{kind}"
    for kind in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
)
"""Queries are their first operand, and each row of the result is made of one."""
LOCAL = re.compile(r"^aten::(convolution|_?(adaptive_)?(avg|max)_pool\d.*|upsample_.*|constant_pad_nd|.*batch_norm.*)$")
"""Operators whose results are made of what lies near in their first operand."""
JOINING = frozenset({"aten::cat", "aten::stack"})
FUSED = frozenset({"aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention"})
"""They also do what each part of their results needs."""
PICKING_ROWS = frozenset({"aten::index", "aten::index_select", "aten::embedding"})
WHOLE = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class View:
    """An operand as it lies in its memory."""

    place: int
    memory: Memory
    sizes: tuple[int, ...]
    elements: int
    """What is repeated counts once."""
    along: bool
    """Its last dimension lies as it was written."""
    whole: bool
    """It covers its memory."""


def view_of(place: int, memory: Memory, tensor: torch.Tensor) -> View:
    """An operand as an operator takes it."""
    sizes, steps = tuple(tensor.shape), tensor.stride()
    elements = math.prod(size for size, step in zip(sizes, steps, strict=True) if step or not size)
    along = not sizes or steps[-1] == 1 or sizes[-1] == 1
    return View(place, memory, sizes, elements, along, whole_of(tensor))


def note_reads(
    step: FollowedStep, node: int, schema: OperatorSchema, views: Sequence[View], values: dict[int, Any],
    masks: dict[int, int], result: torch.Tensor | None,
) -> None:  # fmt: skip
    """What an operation reads of results that are there, before its own are."""
    picks = schema.name in PICKING  # the size of what a mask picks is told, and not what it picks from
    tells = schema.tells_host and not picks
    in_parts = any(view.place in schema.written and not view.whole for view in views)
    for view in views:
        writer = view.memory.writer
        if writer == NOBODY or (view.place in schema.overwritten and view.whole):
            continue
        extent = step.results.get(writer)
        if in_parts or tells or extent is None or extent.memory is not view.memory or not extent.elements:
            step.reads.append(Read(writer, node, 1.0, 1.0, along=False, passes=Passing.NOTHING))
            continue
        elements, along = _share(view, extent)
        if picks and view.place == 0 and result is not None:
            elements = min(elements, result.numel() / extent.elements)
            along = along and _picks_rows(schema.name, values, view.sizes)
        passes = _passes(schema, view, values, result)
        local = schema.name in JOINING or (view.place == 0 and LOCAL.match(schema.name) is not None)
        rows = elements if along else 1.0
        step.reads.append(Read(writer, node, elements, rows, along, passes, masks.get(view.place), local))
    if tells:
        step.told.add(node)


def note_result(
    step: FollowedStep, node: int, schema: OperatorSchema, views: Sequence[View], made: Sequence[Memory],
    result: torch.Tensor | None,
) -> None:  # fmt: skip
    """What an operation makes, or leaves where something was."""
    if made and result is not None:
        step.results[node] = Extent(made[0], result.numel(), _width(tuple(result.shape)), tuple(made[1:]))
        return
    written = [view for view in views if view.place in schema.written]
    if written:
        elements = math.prod(written[0].sizes) if written[0].whole else 0
        others = tuple(view.memory for view in written[1:])
        step.results[node] = Extent(written[0].memory, elements, _width(written[0].sizes), others)


def goes_by_parts(schema: OperatorSchema) -> bool:
    """Whether an operator takes half as long for half of its result."""
    plain = schema.factors is not None or schema.pointwise or schema.copies
    return plain or schema.name in NORMS or schema.name in ATTENTION or schema.name == "aten::convolution"


def find_parts(
    step: FollowedStep, memories: Memories, returned: Sequence[torch.Tensor], masked: dict[int, float]
) -> dict[Key, tuple[float, float]]:
    """By operator, the mean share of its results that nobody needs, where somebody needs the rest; and that perhaps
    nobody needs.

    `masked`: by number, the share of rows of which a mask leaves nothing.
    """
    shown = _returned(step, memories, returned)
    needed, perhaps = (_needed(step, shown, masked, near=near) for near in (False, True))
    shares: dict[Key, list[tuple[float, float]]] = {}
    for call in step.calls:
        part = 1.0 - needed[call.node] if call.by_parts and needed[call.node] and not call.again else 0.0
        least = perhaps[call.node] if call.by_parts or call.key[0] in FUSED else 1.0
        open_part = 1.0 - least if least and not call.again else 0.0
        shares.setdefault(call.key, []).append((part, max(part, open_part)))
    return {
        key: (sum(part for part, _ in found) / len(found), sum(part for _, part in found) / len(found))
        for key, found in shares.items()
    }


def _needed(
    step: FollowedStep, returned: dict[int, tuple[float, float]], masked: dict[int, float], *, near: bool
) -> list[float]:
    """By operation, the share of its result's elements that is needed.

    `near`: where results are made of what lies near, no more of an operand than of them.
    """
    count = len(step.before)
    elements, rows = [0.0] * count, [0.0] * count
    reads: list[list[Read]] = [[] for _ in range(count)]
    for read in step.reads:
        reads[read.reader].append(read)
    for node in reversed(range(count)):
        extent = step.results.get(node)
        least = WHOLE if node in step.told else returned.get(node, WHOLE) if _is_left(node, extent) else (0.0, 0.0)
        elements[node] = min(1.0, elements[node] + least[0])
        rows[node] = min(1.0, rows[node] + least[1])
        if not elements[node]:
            continue
        for read in reads[node]:
            kept = 1.0 if read.mask is None else 1.0 - masked.get(read.mask, 0.0)
            by_each, by_rows = _passed(read, min(kept, elements[node]), min(kept, rows[node]), near=near)
            elements[read.writer] += by_each
            rows[read.writer] += by_rows
    return elements


def _is_left(node: int, extent: Extent | None) -> bool:
    if extent is None:
        return False
    own = extent.memory.writer == node and not extent.memory.freed
    return own or any(not one.freed for one in extent.others)


def _passed(read: Read, elements: float, rows: float, *, near: bool) -> tuple[float, float]:
    """What is needed of an operand where so much is needed of what was made of it."""
    if near and read.local:
        return read.elements * elements, read.rows
    if read.passes is Passing.NOTHING:
        return read.elements, read.rows
    part = elements if read.passes is Passing.EACH else rows
    return read.elements * part, read.rows * rows if read.along else 1.0


def _share(view: View, extent: Extent) -> tuple[float, bool]:
    """Of a result's elements, what a view covers; and whether it covers rows from end to end."""
    along = view.along and bool(view.sizes) and view.sizes[-1] == extent.width
    if view.whole and view.sizes and extent.width:  # rows of several of its own
        along = along or view.sizes[-1] % extent.width == 0
    return min(1.0, view.elements / extent.elements), along


def _passes(schema: OperatorSchema, view: View, values: dict[int, Any], result: torch.Tensor | None) -> Passing:
    """Of what part of an operand an operator makes a part of its result."""
    if result is None or not isinstance(values.get(view.place), torch.Tensor):
        return Passing.NOTHING
    if schema.pointwise or schema.copies:
        return Passing.EACH if math.prod(view.sizes) == result.numel() == view.elements else Passing.NOTHING
    by_rows = view.place == 0 and _goes_over_last(schema.name, values, view.sizes)
    left = schema.factors is not None and view.place == schema.factors[0]
    queries = schema.name in ATTENTION and view.place == 0
    return Passing.ROWS if by_rows or left or queries else Passing.NOTHING


def _goes_over_last(name: str, values: dict[int, Any], sizes: tuple[int, ...]) -> bool:
    over = values.get(NORMS.get(name, NOBODY))
    if isinstance(over, (list, tuple)):
        return len(over) == 1
    return isinstance(over, int) and bool(sizes) and over % len(sizes) == len(sizes) - 1


def _picks_rows(name: str, values: dict[int, Any], sizes: tuple[int, ...]) -> bool:
    if name not in PICKING_ROWS or len(sizes) < 2:
        return False
    by = values.get(1)
    if name == "aten::index_select":
        return isinstance(by, int) and by % len(sizes) != len(sizes) - 1
    return name == "aten::embedding" or (isinstance(by, (list, tuple)) and sum(_covers(one) for one in by) < len(sizes))


def _covers(index: Any) -> int:
    """How many dimensions a part of an index stands for."""
    return index.dim() if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) else 1


def _width(sizes: tuple[int, ...]) -> int:
    return sizes[-1] if sizes else 1


# --- what the step returns --------------------------------------------------------------------------------------------


def _returned(
    step: FollowedStep, memories: Memories, returned: Sequence[torch.Tensor]
) -> dict[int, tuple[float, float]]:
    """Of results that the step returns a part of, and that nobody else holds: the shares of elements and rows."""
    sharing = Counter(storage_of(leaf)._cdata for leaf in {id(leaf): leaf for leaf in returned}.values())
    found: dict[int, tuple[float, float]] = {}
    for leaf in returned:
        memory = memories.find(leaf)
        extent = step.results.get(memory.writer) if memory is not None else None
        if memory is None or extent is None or extent.memory is not memory:
            continue
        alone = extent.elements and leaf.numel() > 1 and not _is_held(leaf, sharing[storage_of(leaf)._cdata])
        elements, along = _share(view_of(0, memory, leaf), extent) if alone else (1.0, False)
        part = elements, elements if along else 1.0
        before = found.get(memory.writer, (0.0, 0.0))
        found[memory.writer] = before[0] + part[0], before[1] + part[1]
    return found


def _is_held(leaf: torch.Tensor, sharing: int) -> bool:
    """Whether somebody holds what a returned tensor is a part of, besides those that are returned."""
    probe = torch.zeros(2)[1:]
    usual = _holders(probe)
    count, of_base = _holders(leaf)
    return count > usual[0] + sharing - 1 - (leaf._base is None) or (leaf._base is not None and of_base > usual[1])


def _holders(view: torch.Tensor) -> tuple[int, int]:
    """How many tensors share its memory, and how often the one is held that it is a view of."""
    storage = storage_of(view)
    return torch._C._storage_Use_Count(storage._cdata), sys.getrefcount(view._base)
