"""The torch engine beside plain PyTorch on one GPU, in one call: its own slowness must not be the finding.

    python benchmarks/engine_reference.py [--cell NAME ...] [--layers N] [--seconds 1.5]

Each cell is Llama 3.1 8B's shape at work twice: as plain_llama.py has it in plain PyTorch (compiled, one CUDA graph),
and through the engine's own session. The two take turns under one driver and one clock, so that ratios hold on any
machine. Cells without a reference stand beside the engine's own bf16. Bars are those of the table BARS. Exit 1 where
one breaks or a cell fails, 4 without a device.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_setting import contract_of, describe, drive_for, find_device, finish, median_ms, open_session
from lynxbench.engines.torch.graphs import TUNED
from lynxbench.load.inprocess import StopRule, drive
from lynxbench.load.journal import Journal
from lynxbench.workload.presets import find_preset
from plain_llama import PlainLlama

MODEL, CONTEXT, PROMPT, ADDED = "llama-3.1-8b", 512, 2048, 64
TURNS = 2
SKIPPED = 0.3
"""Share of each turn that is not counted: clocks and the power cap settle."""
LEVEL = 0.97
"""Of the reference's speed: what the engine may lose to being an engine."""
ERROR_GROWTH = 1.25
"""A compiled step may be so many times as far from fp32 as the plain step of the same precision."""


@dataclass(frozen=True)
class Cell:
    """One row: what the engine is asked for, and what stands beside it."""

    task: str
    precision: str
    graph: str
    batch: int = 1
    model: str = MODEL
    reference: str | None = None
    """How the plain model stores its weights; None where no plain model stands beside."""
    options: dict[str, bool | int] = field(default_factory=dict)

    @property
    def tokens(self) -> int | None:
        """Context of a decoded token, or length of a prompt."""
        return {"decode": CONTEXT, "prefill": PROMPT}.get(self.task)


CELLS: dict[str, Cell] = {
    "decode-bf16": Cell("decode", "bf16", "compile-cuda-graph", reference="bf16"),
    "decode-64-bf16": Cell("decode", "bf16", "compile-cuda-graph", batch=64, reference="bf16"),
    "decode-64-bf16-not-compiled": Cell("decode", "bf16", "cuda-graph", batch=64),
    "prefill-bf16": Cell("prefill", "bf16", "compile-cuda-graph", reference="bf16"),
    "prefill-fp8": Cell("prefill", "fp8", "compile-cuda-graph", reference="fp8"),
    "decode-fp8": Cell("decode", "fp8", "compile-cuda-graph"),
    "decode-int4": Cell("decode", "int4-weight-only", "compile-cuda-graph"),
    "decode-int8": Cell("decode", "int8-weight-only", "compile-cuda-graph", reference="int8", options=TUNED),
    "decode-fp8-weights": Cell("decode", "fp8-weight-only", "compile-cuda-graph"),
    "vision-tf32": Cell("classify", "tf32", "compile-cuda-graph", batch=64, model="vit-b-16"),
    "vision-fp16": Cell("classify", "fp16", "compile-cuda-graph", batch=64, model="vit-b-16"),
}


@dataclass(frozen=True)
class Bar:
    """What must hold, in words and as a check of the engine's milliseconds by cell."""

    words: str
    needs: tuple[str, ...]
    holds: Callable[..., bool]


BARS = (
    Bar("decode bf16 at most 5.2 ms", ("decode-bf16",), lambda a: a <= 5.2),
    Bar("decode bf16 for 64 at most 10.4 ms", ("decode-64-bf16",), lambda a: a <= 10.4),
    Bar("prefill fp8 at least 1.5 times bf16", ("prefill-bf16", "prefill-fp8"), lambda a, b: a / b >= 1.5),
    Bar("decode with int8 weights at least 1.5 times bf16", ("decode-bf16", "decode-int8"), lambda a, b: a / b >= 1.5),
    Bar(
        "decode with fp8 weights at least 1.5 times bf16",
        ("decode-bf16", "decode-fp8-weights"),
        lambda a, b: a / b >= 1.5,
    ),
    Bar("decode int4 faster than fp8", ("decode-fp8", "decode-int4"), lambda a, b: a / b > 1.0),
    Bar("vision fp16 at least 2 times tf32", ("vision-tf32", "vision-fp16"), lambda a, b: a / b >= 2.0),
)
"""Milliseconds hold for an H200 and all 32 layers."""


def recorded(call: Callable[[], object]) -> Callable[[int], object]:
    """The call as one CUDA graph, after a few of it on a stream beside."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return lambda _: graph.replay()


def plain_step(cell: Cell, layers: int | None) -> Callable[[int], object]:
    """The cell's step in plain PyTorch."""
    assert cell.reference is not None
    assert cell.tokens is not None
    shape = dict(find_preset(MODEL).config)
    shape["num_hidden_layers"] = layers or shape["num_hidden_layers"]
    decodes = cell.task == "decode"
    model = PlainLlama(shape, cell.reference, cell.batch, cell.tokens + (ADDED if decodes else 0))
    forward: Any = torch.compile(model, dynamic=False, options=cell.options or None)
    length = 1 if decodes else cell.tokens
    tokens = torch.randint(0, shape["vocab_size"], (cell.batch, length), device="cuda")
    at = torch.tensor([cell.tokens], device="cuda") if decodes else torch.arange(cell.tokens, device="cuda")
    with torch.inference_mode():
        if not decodes:
            return recorded(lambda: forward(tokens, at))

        def add() -> None:
            tokens.copy_(forward(tokens, at))
            at.copy_(CONTEXT + (at + 1 - CONTEXT) % ADDED)

        return recorded(add)


def timed_session(session: Any, seconds: float) -> float:
    """Median step of an engine's session through the program's own driver."""
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        drive(session, journal, StopRule(seconds, seconds, lambda _: False))
        return median_ms(journal.iterations(), seconds * SKIPPED)


def forget() -> None:
    """Give the last cell's memory and compiled code back."""
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.empty_cache()


def engine_session(cell: Cell, layers: int | None, **other: str) -> Any:
    """The cell through the engine."""
    keys = {"graph": cell.graph, "attention": "grouped"} | other
    small = layers if cell.model == MODEL else None
    return open_session(
        contract_of(cell.task, cell.model, cell.precision, tokens=cell.tokens, batch=cell.batch, layers=small, **keys)
    )


def measure(cell: Cell, layers: int | None, seconds: float, device: Any) -> dict[str, Any]:
    """Engine and reference in turns; what the engine says it executed."""
    began = time.perf_counter()
    session = engine_session(cell, layers)
    row: dict[str, Any] = {"engine_ready_s": round(time.perf_counter() - began, 1)}
    began = time.perf_counter()
    step = plain_step(cell, layers) if cell.reference else None
    row |= {"reference_ready_s": round(time.perf_counter() - began, 1)} if step else {}
    engine, plain = [], []
    for _ in range(TURNS):
        if step is not None:
            plain.append(median_ms(drive_for(step, device, seconds), seconds * SKIPPED))
        engine.append(timed_session(session, seconds))
    row["engine_ms"] = float(np.mean(engine))
    if step is not None:
        row["reference_ms"] = float(np.mean(plain))
        row["ratio"] = row["reference_ms"] / row["engine_ms"]
    executed = session.executed()
    row |= {"executed": str(executed.native), "how": executed.how, "toolchain": executed.toolchain}
    if cell.task == "decode":
        row["scores"] = session.outputs().arrays["logits"]
    session.close()
    return row


def errors_of(rows: dict[str, dict[str, Any]], layers: int | None) -> dict[str, float]:
    """Relative error of next-token scores against the plain fp32 step: every decoded cell, and the plain bf16 step."""
    scores = {}
    for precision in ("fp32", "bf16"):
        plain = Cell("decode", precision, "eager")
        scores[precision] = engine_session(plain, layers, attention="sdpa").outputs().arrays["logits"]
        forget()
    truth = scores["fp32"]
    taken = {name: row.pop("scores") for name, row in rows.items() if "scores" in row} | {"plain bf16": scores["bf16"]}
    return {name: float(np.linalg.norm(made - truth) / np.linalg.norm(truth)) for name, made in taken.items()}


def judge(rows: dict[str, dict[str, Any]], errors: dict[str, float], whole: bool) -> list[dict[str, Any]]:
    """Every bar that these cells can be held to."""
    found = [
        {"bar": f"{name} at least {LEVEL:g} of plain PyTorch", "holds": row["ratio"] >= LEVEL}
        for name, row in rows.items()
        if "ratio" in row
    ]
    for bar in BARS if whole else ():
        if all("engine_ms" in rows.get(name, {}) for name in bar.needs):
            found.append({"bar": bar.words, "holds": bar.holds(*(rows[name]["engine_ms"] for name in bar.needs))})
    found += [
        {"bar": f"{name}: error at most {ERROR_GROWTH:g} times that of the plain step",
         "holds": error <= ERROR_GROWTH * errors["plain bf16"]}
        for name, error in errors.items()
        if "bf16" in name and name != "plain bf16"
    ]  # fmt: skip
    return found


def passes(rows: dict[str, dict[str, Any]], bars: list[dict[str, Any]]) -> bool:
    """Every bar holds, and every cell was measured."""
    return all(bar["holds"] for bar in bars) and not any("failed" in row for row in rows.values())


def main() -> int:
    """Every cell, then the bars."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cell", action="append", choices=list(CELLS))
    parser.add_argument("--layers", type=int, help="fewer layers, for a quick look without the bars")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn")
    options = parser.parse_args()
    device = find_device()
    rows: dict[str, dict[str, Any]] = {}
    for name in options.cell or list(CELLS):
        try:
            rows[name] = measure(CELLS[name], options.layers, options.seconds, device)
        except Exception as problem:  # one cell that fails is a row that says so
            rows[name] = {"failed": f"{type(problem).__name__}: {problem}"[:400]}
        forget()
        said = {key: value for key, value in rows[name].items() if key != "scores"}
        print(name, said, file=sys.stderr, flush=True)
    errors = errors_of(rows, options.layers) if any("scores" in row for row in rows.values()) else {}
    bars = judge(rows, errors, whole=options.layers is None)
    for bar in bars:
        print("holds " if bar["holds"] else "BREAKS", bar["bar"], file=sys.stderr)
    found = {"layers": options.layers, "cells": rows, "errors": errors, "bars": bars, "pass": passes(rows, bars)}
    return finish(describe(device) | found)


if __name__ == "__main__":
    sys.exit(main())
