"""Follows the values of a step: a dispatch mode that sees each of PyTorch's operators and changes none."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lynxbench.engines.torch.value_calls import NOBODY, Call, FollowedStep, Memory
from lynxbench.engines.torch.value_draws import draws, generators
from lynxbench.engines.torch.value_masks import Mask, Masks, find_masked, find_row_masks
from lynxbench.engines.torch.value_memory import Memories, Numbers
from lynxbench.engines.torch.value_picks import LEAST_ROW_BYTES, MOST_PICKS, counts_evenly, row_bytes
from lynxbench.engines.torch.value_reads import View, goes_by_parts, note_reads, note_result, view_of
from lynxbench.engines.torch.value_repeats import SAMPLED, Operands, find_repeats, repeats_of
from lynxbench.engines.torch.value_rows import Repeats, SeenRows
from lynxbench.engines.torch.value_schema import OperatorSchema, schema_of
from lynxbench.engines.torch.value_structure import PICKING, Made, combine, fewest, made_of
from lynxbench.engines.torch.value_tensors import geometry_of, storage_of, tensors_in, whole_of
from lynxbench.engines.torch.value_zeros import Zeros
from lynxbench.errors import first_line

MOST_OPERATORS = 100_000
"""Followed in all; a step of more is not followed."""
OWN_S = 30.0
"""So long may the following itself take."""
PLAIN = torch.Tensor.__torch_dispatch__
EMPTYING = frozenset({"aten::zero_", "aten::_foreach_zero_"})
"""Of tensors, and of classes that do not look into operators."""


@dataclass(slots=True, eq=False)
class _Looked:
    """An operator's operands, as they were before it ran."""

    schema: OperatorSchema
    identity: tuple[Hashable, ...]
    """What it computes from which values: the same results where it is the same."""
    sizes: tuple[tuple[int, ...], ...]
    operands: list[tuple[int, Memory]]
    written: list[Memory]
    shared: int | None = None
    zeros: int | None = None
    trained: bool = False
    adds: bool = False
    made_of: Made | None = None
    few: tuple[float, bool] | None = None
    picks: int | None = None
    index_bytes: int = 0
    masks: Mask | None = None
    values: dict[int, Any] = field(default_factory=dict)
    views: list[View] = field(default_factory=list)
    row_masks: dict[int, int] = field(default_factory=dict)
    repeats: Repeats | None = None


class ValueFollower(TorchDispatchMode):  # type: ignore[misc]  # untyped in PyTorch
    """Numbers values while a step runs; whatever goes wrong in it ends the following and not the step."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would load its compiler, which takes seconds, to keep it out of here; no compiled step comes here."""
        return False

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self.why: str | None = None
        """Why not all was seen; None as long as it was."""
        self.step = FollowedStep()
        self.numbers = Numbers()
        self.memories = Memories(self.numbers)
        self.zeros = Zeros()
        self.masks = Masks()
        self.rows = SeenRows(clock)
        self.even: dict[int, torch.Tensor] = {}
        """By what is picked how: whether the numbers by which it is picked count up evenly."""
        self.before: set[int] = set()
        """What the step before computed."""
        self.counting = True
        self._clock = clock
        self._took_s = 0.0
        self._operators = 0
        self._lock = threading.RLock()

    def hide(self, why: str) -> None:
        """Nothing more is said of this step, nor of the next."""
        self.why = self.why or why

    def begin_step(self) -> None:
        """What is followed from here on is the next step."""
        self.before, self.step = self.step.done, FollowedStep()

    def expose(self, tensor: Any) -> None:
        """The host, or code that is not PyTorch's, comes to a tensor's elements."""
        if self.why is not None:
            return
        with self._noting("a tensor that was handed out"):
            if not isinstance(tensor, torch.Tensor) or not _is_plain(tensor):
                return
            memory = self.memories.meet(tensor)
            memory.read = memory.used = True
            memory.blank = False
            memory.content, memory.made_of, memory.own = self.numbers.fresh(), None, False
            step = self.step
            step.told.add(memory.writer)
            step.before.append(tuple({memory.writer, step.barrier} - {NOBODY}))
            step.barrier = memory.writer = len(step.before) - 1

    def differentiate(self, outputs: Any) -> None:
        """Gradients are asked of results, perhaps with those behind them given: they were not made in vain."""
        with self._noting("what gradients are asked of"):
            for tensor in tensors_in(outputs):
                memory = self.memories.find(tensor) if _is_plain(tensor) else None
                if memory is not None:
                    memory.read = memory.used = True
                    self.step.told.add(memory.writer)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator as it is, and note what it read and made."""
        words: dict[str, Any] = kwargs or {}
        looked: _Looked | None = None
        composed = False
        with self._noting(func):
            schema = self._schema(func)
            composed = schema is not None and schema.composed and not types
            if schema is not None and not composed and not schema.aside:
                looked = self._look(schema, args, words)
        if composed:
            with self:
                return func.decompose(*args, **words)  # as the dispatcher would
        if looked is None:
            return func(*args, **words)
        try:
            result = func(*args, **words)
        except BaseException:
            with self._noting(func):
                for memory in looked.written:
                    memory.content = self.numbers.fresh()
            raise
        with self._noting(func):
            self._note(looked, result)
        return result

    @contextmanager
    def _noting(self, what: object) -> Iterator[None]:
        """What goes wrong here, or takes too long, ends the following."""
        began = self._clock()
        try:
            with self._lock:
                yield
        except Exception as error:
            self.hide(f"{what} could not be followed: {first_line(error)}")
        self._took_s += self._clock() - began
        if self._took_s > OWN_S:
            self.hide(f"following it took longer than {OWN_S:g} s")

    def _schema(self, func: Any) -> OperatorSchema | None:
        """Of an operator that is to be followed."""
        if self.why is not None:
            return None
        self._operators += 1
        if self._operators > MOST_OPERATORS:
            self.hide(f"it has more than {MOST_OPERATORS} operators")
        elif not isinstance(func, torch._ops.OpOverload):
            self.hide(f"{func} ran, which is not an operator")
        elif not schema_of(func).own:
            self.hide(f"{schema_of(func).name} ran, which is not PyTorch's own")
        return None if self.why is not None else schema_of(func)

    def _look(self, schema: OperatorSchema, args: Any, words: dict[str, Any]) -> _Looked | None:
        values = {**dict(enumerate(args)), **{schema.places[word]: value for word, value in words.items()}}
        training = any(values.get(schema.places.get(word, NOBODY)) is True for word in ("training", "train"))
        running = schema.running if training else frozenset[int]()
        parts: list[Hashable] = [schema.name, schema.overload]
        sizes: list[tuple[int, ...]] = []
        operands: list[tuple[int, Memory]] = []
        views: list[View] = []
        written: list[Memory] = []
        numbers: dict[int, int] = {}
        made: list[tuple[torch.Tensor, Made]] = []
        backward = torch._C._current_graph_task_id() >= 0
        trained = False
        index_bytes = 0
        for place in sorted(values):
            tensors = list(tensors_in(values[place]))
            if not tensors:
                parts.append((place, type(values[place]).__name__, repr(values[place])))
                continue
            for tensor in tensors:
                if not _is_plain(tensor):
                    self.hide(f"{schema.name} has an operand that is no plain tensor")
                    return None
                memory = self.memories.meet(tensor)
                if place in schema.unlisted:
                    index_bytes += tensor.numel() * tensor.element_size()
                else:
                    sizes.append(tuple(tensor.shape))
                operands.append((place, memory))
                views.append(view_of(place, memory, tensor))
                if place not in schema.overwritten:
                    made.append((tensor, made_of(tensor, memory.made_of, backward=backward)))
                geometry = geometry_of(tensor)
                numbers[place] = self.numbers.of((memory.content, geometry))
                if memory.writer == NOBODY:
                    (self.step.outside if memory.own else self.step.foreign).add(numbers[place])
                over = place in running or (place in schema.overwritten and whole_of(tensor))
                parts.append((place, geometry) if over else (place, numbers[place]))
                changed = place in schema.written or place in running
                if changed and all(memory is not one for one in written):
                    written.append(memory)
                if tensor.requires_grad and tensor.is_leaf:
                    trained = trained or place in schema.written
                    self.step.leaves.setdefault(id(tensor), weakref.ref(tensor))
        if _is_captured(operands, values):
            self.hide("a CUDA graph was captured")
            return None
        if draws(schema, values):
            parts.append(generators(values))
        looked = _Looked(schema, tuple(parts), tuple(sizes), operands, written, trained=trained)
        looked.values, looked.views = values, views
        if schema.factors is not None and all(place in numbers for place in schema.factors):
            first, second = (values[place] for place in schema.factors)
            looked.shared = numbers[schema.factors[1]]
            looked.zeros = self.numbers.of(("factors", *(numbers[place] for place in schema.factors)))
            if self.counting:
                self.zeros.count(looked.zeros, first, second)
        masked = find_masked(schema.name, values, dict(operands))
        if masked is not None:
            place, other, product = masked
            looked.masks = product, self._keep_mask(schema.name, place, values[other], numbers[other])
        for place, other in find_row_masks(schema.name, values):
            looked.row_masks[place] = self._keep_mask(schema.name, place, values[other], numbers[other])
        if not backward and not schema.seeded:
            if schema.pointwise:
                looked.repeats = repeats_of(views)
            elif schema.name in SAMPLED or looked.shared is not None:
                before = {view.place: view.memory.repeats for view in views}
                asked = Operands(looked.identity, values, numbers, made, before)
                looked.repeats = find_repeats(self.rows, self.numbers, schema, asked, again=not self.counting)
        looked.adds = schema.adds and _is_sum(values)
        if index_bytes and isinstance(values.get(1), (list, tuple)):
            looked.index_bytes = index_bytes if row_bytes(values[0], values[1]) >= LEAST_ROW_BYTES else 0
        self._look_at_structure(looked, values, made)
        return looked

    def _keep_mask(self, name: str, place: int, mask: Any, content: int) -> int:
        """The number under which it is counted what a mask leaves of an operand."""
        number = self.numbers.of(("mask", name, place, content))
        self.masks.keep(number, name, place, mask)
        return number

    def _look_at_structure(
        self, looked: _Looked, values: dict[int, Any], made: list[tuple[torch.Tensor, Made]]
    ) -> None:
        """Of what its operands were made, and by which numbers it picks."""
        name = looked.schema.name
        made_here = torch._C._current_graph_task_id() < 0 and not looked.schema.seeded
        if made_here:  # what a loss hands back is not the step's own doing
            written = (one for place in looked.schema.written for one in tensors_in(values.get(place)))
            whole = all(whole_of(tensor) for tensor in written)
            looked.made_of = combine(name, made, pointwise=looked.schema.pointwise) if whole else None
        if name == "aten::convolution" or looked.schema.factors is not None:
            looked.few = fewest(name, made)
        if self.counting and not looked.written and name in PICKING:
            looked.picks = self.numbers.of(("picked", looked.identity))
            full = looked.picks in self.even or len(self.even) >= MOST_PICKS
            even = None if full else counts_evenly(name, values)
            if even is not None:
                self.even[looked.picks] = even

    def _note(self, looked: _Looked, result: Any) -> None:
        schema, step = looked.schema, self.step
        identity = self.numbers.of(looked.identity)
        made: list[Memory] = []
        for number, tensor in enumerate(tensors_in(result)):
            if not _is_plain(tensor):
                self.hide(f"{schema.name} made what is no plain tensor")
                return
            content = self.numbers.fresh() if schema.blank else self.numbers.of((identity, number))
            memory = self.memories.make(tensor, content)
            if memory is not None:
                made.append(memory)
        if not made and not looked.written and not schema.tells_host:
            return  # its result is an operand, looked at anew
        if schema.views and looked.written and not made:
            return  # … and so is an operand itself
        if any(memory.blank and not self._is_written(memory, looked) for _, memory in looked.operands):
            self.hide("memory was read that no operator of PyTorch had written")
            return
        node = len(step.before)
        needed = {memory.writer for _, memory in looked.operands} | {step.barrier}
        step.before.append(tuple(needed - {NOBODY}))
        for _, memory in looked.operands:
            memory.read = True
            memory.used = memory.used or not self._gathers(looked, memory)
        first = next(tensors_in(result), None)
        note_reads(step, node, schema, looked.views, looked.values, looked.row_masks, first)
        note_result(step, node, schema, looked.views, made, first)
        call = self._call(looked, node, identity, made, result)
        for number, memory in enumerate(looked.written):
            content = self.numbers.of((identity, "written", number))
            if memory.maker is not None and content not in step.contents:
                memory.maker.again = False  # whoever changes it needs it for himself
            self._put(memory, content, node)
            memory.made_of, memory.repeats = looked.made_of, looked.repeats
        for memory in made:
            memory.maker, memory.blank = call, schema.blank
            self._put(memory, memory.content, node, blank=schema.blank)
            memory.made_of, memory.repeats = looked.made_of, looked.repeats
        step.trained = step.trained or looked.trained
        if schema.tells_host:
            step.barrier = node

    def _call(self, looked: _Looked, node: int, identity: int, made: list[Memory], result: Any) -> Call:
        schema, step = looked.schema, self.step
        pure = bool(made) and not looked.written and not schema.blank
        moved = sum(one.numel() * one.element_size() for one in tensors_in(result)) if pure else 0
        call = Call(
            key=(schema.name, looked.sizes),
            node=node,
            again=pure and identity in step.done,
            private=schema.copies or not looked.operands,
            made=made if pure else [],
            backward=torch._C._current_graph_task_id() >= 0,
            shared=looked.shared,
            zeros=looked.zeros,
            added=tuple(memory.writer for _, memory in looked.operands) if looked.adds else (),
            result=made[0] if len(made) == 1 else looked.written[0] if len(looked.written) == 1 else None,
            barrier=step.barrier,
            constant=pure and not schema.copies and identity in self.before,
            few=looked.few,
            picks=looked.picks,
            masks=looked.masks,
            repeats=looked.repeats,
            by_parts=goes_by_parts(schema),
            moved=2 * moved + looked.index_bytes if looked.index_bytes and moved else 0,
        )
        step.done.add(identity)
        step.calls.append(call)
        return call

    def _put(self, memory: Memory, content: int, node: int, *, blank: bool = False) -> None:
        memory.content, memory.writer, memory.blank = content, node, blank
        memory.own, memory.made_of, memory.repeats = True, None, None
        self.step.contents.add(content)

    @staticmethod
    def _gathers(looked: _Looked, memory: Memory) -> bool:
        """Whether an operator only adds to what lies there in a backward pass, or empties it."""
        if not any(memory is one for one in looked.written):
            return False
        adds = looked.adds and len(looked.written) == 1 and torch._C._current_graph_task_id() >= 0
        return adds or looked.schema.name in EMPTYING

    @staticmethod
    def _is_written(memory: Memory, looked: _Looked) -> bool:
        return any(memory is one for one in looked.written)


def _is_plain(tensor: torch.Tensor) -> bool:
    own = type(tensor).__torch_dispatch__
    return own is PLAIN and tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized


def _is_sum(values: dict[int, Any]) -> bool:
    """Whether an addition puts two whole tensors of one kind together, neither of them scaled."""
    if any(value != 1 for value in values.values() if not isinstance(value, torch.Tensor)):
        return False
    terms = [value for value in values.values() if isinstance(value, torch.Tensor)]
    kinds = {(one.dtype, tuple(one.shape), one.device) for one in terms}
    apart = {storage_of(one)._cdata for one in terms}
    return len(terms) == len(apart) == 2 and len(kinds) == 1 and all(whole_of(one) for one in terms)


def _is_captured(operands: list[tuple[int, Memory]], values: dict[int, Any]) -> bool:
    on_device = any(one.is_cuda for value in values.values() for one in tensors_in(value)) if operands else False
    return on_device and torch.cuda.is_current_stream_capturing()
