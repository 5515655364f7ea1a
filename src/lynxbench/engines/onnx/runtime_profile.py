"""ONNX Runtime's own profile, read for two ends: which kernels ran where, and a trace in Kineto's form."""

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lynxbench.attribute.read.operator_names import ONNX_INTEGER_PRODUCTS, ONNX_PRODUCTS
from lynxbench.engines.onnx.model_file import WEIGHT_ONLY
from lynxbench.model.job import ExecutedAs
from lynxbench.model.precision import Native, Precision

WEIGHT_ONLY_PRODUCTS = frozenset({"MatMulNBits", "MatMulBnb4", "QMoE"})
"""They read stored weights narrow; of how many bits, the file says."""
PRODUCTS = ONNX_PRODUCTS - ONNX_INTEGER_PRODUCTS - WEIGHT_ONLY_PRODUCTS
"""Operators that multiply matrices in the type of their inputs."""

_WORD_OF: dict[Precision, str] = {
    Precision.FP32: "float",
    Precision.TF32: "float",
    Precision.FP16: "float16",
    Precision.BF16: "bfloat16",
    Precision.FP8: "float8",
}
MOSTLY = 0.5
"""A precision is native when more than half of the time in matrix products is spent in kernels of that type."""


@dataclass(frozen=True, slots=True)
class GraphNodeRun:
    """One execution of one node."""

    operator: str
    name: str
    provider: str
    start_us: float
    dur_us: float
    input_types: tuple[str, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...]
    thread: int

    @property
    def kernel(self) -> str:
        """Operator, element types and provider: how a kernel is named to people."""
        return f"{self.operator}({','.join(self.input_types)}) {self.provider.removesuffix('ExecutionProvider')}"


@dataclass(frozen=True, slots=True)
class RuntimeProfile:
    """Nodes in order, and the stretch of every call of the session."""

    nodes: tuple[GraphNodeRun, ...]
    runs_us: tuple[tuple[float, float], ...]

    @property
    def nodes_by_provider(self) -> dict[str, int]:
        """How many distinct nodes each provider executed."""
        seen: dict[str, set[str]] = defaultdict(set)
        for node in self.nodes:
            seen[node.provider].add(node.name)
        return {provider: len(names) for provider, names in sorted(seen.items())}


def parse_profile(events: Sequence[dict[str, Any]]) -> RuntimeProfile:
    """Nodes and calls from the JSON that ONNX Runtime writes."""
    nodes: list[GraphNodeRun] = []
    runs: list[tuple[float, float]] = []
    for event in events:
        start, dur = float(event.get("ts", 0)), float(event.get("dur", 0))
        if event.get("cat") == "Session" and event.get("name") == "model_run":
            runs.append((start, start + dur))
        arguments = event.get("args") or {}
        timed = event.get("cat") == "Node" and str(event.get("name")).endswith("_kernel_time")
        if not timed or "op_name" not in arguments:
            continue
        inputs, outputs = (
            [next(iter(tensor.items())) for tensor in arguments.get(f"{side}_type_shape", []) if tensor]
            for side in ("input", "output")
        )
        nodes.append(
            GraphNodeRun(
                operator=str(arguments["op_name"]),
                name=str(event["name"]).removesuffix("_kernel_time"),
                provider=str(arguments.get("provider", "unknown")),
                start_us=start,
                dur_us=dur,
                input_types=tuple(str(kind) for kind, _ in inputs),
                input_shapes=tuple(tuple(shape) for _, shape in inputs),
                output_shapes=tuple(tuple(shape) for _, shape in outputs),
                thread=int(event.get("tid", 0)),
            )
        )
    return RuntimeProfile(tuple(nodes), tuple(sorted(runs)))


def judge_execution(
    profile: RuntimeProfile, precision: Precision, stored: Precision | None, toolchain: str
) -> ExecutedAs:
    """Native or emulated: the kernels that took the time of the matrix products decide."""
    spent: dict[str, float] = defaultdict(float)
    fitting = total = 0.0
    for node in profile.nodes:
        if node.operator not in ONNX_PRODUCTS:
            continue
        spent[node.kernel] += node.dur_us
        total += node.dur_us
        fitting += node.dur_us if _fits(node, precision) else 0.0
    kernels = tuple(sorted(spent, key=lambda kernel: -spent[kernel])[:8])
    if total == 0:
        return ExecutedAs(
            native=Native.UNKNOWN, how="the graph has no matrix product to judge by", kernels=(), toolchain=toolchain
        )
    share = fitting / total
    native = Native.NATIVE if share > MOSTLY else Native.EMULATED
    how = f"{share:.0%} of matrix-product time in {precision} kernels"
    if native is Native.EMULATED and precision in (Precision.INT8, Precision.INT8_WEIGHT_ONLY):
        how += "; the 8-bit weights are widened before the product"
    elif native is Native.EMULATED and precision in WEIGHT_ONLY.values():
        how += "; the narrow weights are widened before the product"
    if stored is None:
        how += "; the file's own precision was not read (the onnx package is missing)"
    return ExecutedAs(native=native, how=how, kernels=kernels, toolchain=toolchain)


def write_trace(profile: RuntimeProfile, steps_ns: Sequence[tuple[int, int]], path: Path) -> Path:
    """A Chrome trace in Kineto's words: `step#i` annotations, one `onnx::run` a call, and its nodes as operators."""
    offset_us = _clock_offset_us(profile.runs_us, steps_ns)
    thread = profile.nodes[0].thread if profile.nodes else 0
    events: list[dict[str, Any]] = []

    def add(category: str, name: str, start_us: float, dur_us: float, **arguments: object) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": thread, "ts": start_us, "dur": dur_us}
        events.append(event | {"args": arguments})

    for index, (start_ns, end_ns) in enumerate(steps_ns):
        add("user_annotation", f"step#{index}", start_ns / 1e3 - offset_us, (end_ns - start_ns) / 1e3)
    for start_us, end_us in profile.runs_us:
        add("cpu_op", "onnx::run", start_us, end_us - start_us)
    for node in profile.nodes:
        add(
            "cpu_op",
            f"onnx::{node.operator}",
            node.start_us,
            node.dur_us,
            **{
                "Input Dims": [list(shape) for shape in node.input_shapes],
                "Input type": list(node.input_types),
                "Output Dims": [list(shape) for shape in node.output_shapes],
                "node": node.name,
                "provider": node.provider,
            },
        )
    document = {"schemaVersion": 1, "producer": "lynxbench onnx", "displayTimeUnit": "ms", "traceEvents": events}
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(document, file)
    return path


def _fits(node: GraphNodeRun, precision: Precision) -> bool:
    if precision is Precision.INT8:
        return node.operator in ONNX_INTEGER_PRODUCTS
    if precision in WEIGHT_ONLY.values():
        return node.operator in WEIGHT_ONLY_PRODUCTS
    word = _WORD_OF[precision]
    # "float" is a prefix of "float16", so wide floats are matched whole and only the float8 family by its beginning.
    by_start = precision is Precision.FP8
    fits = any(kind.startswith(word) if by_start else kind == word for kind in node.input_types)
    return node.operator in PRODUCTS and fits


def _clock_offset_us(runs_us: Sequence[tuple[float, float]], steps_ns: Sequence[tuple[int, int]]) -> float:
    """What to subtract from the host's clock to be on the profile's: every call must lie inside its step."""
    pairs = list(zip(runs_us, steps_ns, strict=False))
    if not pairs:
        return 0.0
    least = max(start_ns / 1e3 - run[0] for run, (start_ns, _) in pairs)
    most = min(end_ns / 1e3 - run[1] for run, (_, end_ns) in pairs)
    return (least + most) / 2
