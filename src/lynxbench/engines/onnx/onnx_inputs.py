"""Inputs made from a graph's own signature: seeded, in rotation, inside each table's bounds, and never zeros."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.errors import CannotRun

Feed = dict[str, npt.NDArray[np.generic]]

INPUT_SETS = 8
"""Sets in rotation: enough that no cache of answers can help, few enough to stay out of the memory's way."""
FALLBACK_ROWS = 100
"""Bound on token ids where the graph does not show its table: small enough for any vocabulary."""
IMAGE_SIDE = 224
"""Height and width where the graph leaves them open: the usual ImageNet crop. Stated among the facts."""

_BATCH = re.compile(r"batch|^(n|b|bs)$", re.IGNORECASE)
_SEQUENCE = re.compile(r"seq|len|token|time|^(s|t|l)$", re.IGNORECASE)
_IMAGE = re.compile(r"height|width|^(h|w)$", re.IGNORECASE)
_PAST = re.compile(r"past|cache|present", re.IGNORECASE)
_MASK = re.compile(r"mask", re.IGNORECASE)
_POSITION = re.compile(r"position", re.IGNORECASE)

_SAME_WORD = ("float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool")
_TYPES: dict[str, str] = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{f"tensor({word})": word for word in _SAME_WORD},
}


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One input of a graph: name, ONNX Runtime's word for its type, and its axes (numbers, names or None)."""

    name: str
    type: str
    axes: tuple[int | str | None, ...]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The numpy type; CannotRun for types numpy cannot hold."""
        if self.type not in _TYPES:
            raise CannotRun(f"input {self.name!r} is {self.type}; engine onnx can make {', '.join(sorted(_TYPES))}")
        return np.dtype(_TYPES[self.type])


def axis_kinds(signature: GraphInput) -> tuple[str | int, ...]:
    """Each axis as a fixed size or as `batch`, `sequence`, `image`; CannotRun where a name says nothing."""
    kinds: list[str | int] = []
    for position, axis in enumerate(signature.axes):
        if isinstance(axis, int) and axis > 0:
            kinds.append(axis)
            continue
        name = axis if isinstance(axis, str) else ""
        if _PAST.search(name) or "+" in name:
            raise CannotRun(f"input {signature.name!r} has the cache axis {name!r}; engine onnx runs no decoders")
        if _BATCH.search(name):
            kinds.append("batch")
        elif _SEQUENCE.search(name):
            kinds.append("sequence")
        elif _IMAGE.search(name) or (not name and len(signature.axes) == 4 and position >= 2):
            kinds.append("image")
        elif position == 0:
            kinds.append("batch")
        elif not name and len(signature.axes) == 2 and signature.dtype.kind in "iu":
            kinds.append("sequence")
        else:
            raise CannotRun(
                f"input {signature.name!r}: axis {position} ({name or 'unnamed'}) has no size; export the model with "
                "it fixed, or call it batch or sequence"
            )
    return tuple(kinds)


def check_batch(signatures: Sequence[GraphInput], batch: int) -> None:
    """Refuse a contract's batch that a graph with a fixed batch cannot take."""
    kinds = [axis_kinds(signature) for signature in signatures if signature.axes]
    if not kinds or any("batch" in axes for axes in kinds):
        return
    fixed = kinds[0][0]
    if fixed != batch:
        raise CannotRun(f"the graph's batch is fixed at {fixed}, the contract asks for {batch}; set batch: {fixed}")


def needs_lengths(signatures: Sequence[GraphInput]) -> bool:
    """Whether an axis follows the contract's input_tokens."""
    return any("sequence" in axis_kinds(signature) for signature in signatures)


def make_feed(
    signatures: Sequence[GraphInput], batch: int, length: int, rows: Mapping[str, int], random: np.random.Generator
) -> Feed:
    """One set of inputs of the given batch and length."""
    sizes = {"batch": batch, "sequence": length, "image": IMAGE_SIDE}
    return {
        signature.name: _values(
            signature,
            tuple(sizes[kind] if isinstance(kind, str) else kind for kind in axis_kinds(signature)),
            rows.get(signature.name),
            random,
        )
        for signature in signatures
    }


def feeds_sha256(feeds: Sequence[Feed]) -> str:
    """SHA-256 over names, shapes and bytes of the inputs."""
    digest = hashlib.sha256()
    for feed in feeds:
        for name in sorted(feed):
            digest.update(f"{name}{feed[name].shape}{feed[name].dtype}".encode())
            digest.update(np.ascontiguousarray(feed[name]).tobytes())
    return digest.hexdigest()


def _values(
    signature: GraphInput, shape: tuple[int, ...], rows: int | None, random: np.random.Generator
) -> npt.NDArray[np.generic]:
    dtype = signature.dtype
    if _MASK.search(signature.name):
        return np.ones(shape, dtype)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        values = random.integers(0, 2, shape).astype(dtype)
        if values.size and not values.any():  # never all zeros
            values.flat[int(random.integers(values.size))] = True
        return values
    if _POSITION.search(signature.name):
        return np.broadcast_to(np.arange(shape[-1] if shape else 1), shape).astype(dtype)
    if rows is None and dtype.itemsize == 1:  # bytes of an image
        return random.integers(1, 127 if dtype.kind == "i" else 255, shape, endpoint=True).astype(dtype)
    bound = rows if rows is not None else FALLBACK_ROWS
    if bound <= 2:  # token types: a table of one or two rows has no id above 0 to spare
        return random.integers(0, bound, shape).astype(dtype)
    return random.integers(1, bound, shape).astype(dtype)
