"""What served_plants.py plants: servers with their arguments, loads, what may be said of each, and its fix."""

from __future__ import annotations

from dataclasses import dataclass

SIZES = "[1,2,4,8,16,32,48,64,80,96,112,128,192,256,320,384,448,512]"
GRAPHS = ("--compilation-config", f'{{"mode":0,"cudagraph_mode":"FULL","cudagraph_capture_sizes":{SIZES}}}')
"""Whole CUDA graphs and nothing compiled: as quick as compiled code within a few per cent, and started in half the
time, so that all servers fit one sitting."""


@dataclass(frozen=True)
class Server:
    """One server: its arguments, the cache it is given, and the model it serves."""

    cache_gib: float
    arguments: tuple[str, ...] = ()
    small: bool = False
    graphs: bool = True
    longest: int = 2048


SERVERS: dict[str, Server] = {
    "healthy": Server(5, ("--max-num-seqs", "256", "--max-num-batched-tokens", "8192"), longest=8192),
    "sequences": Server(0.75, ("--max-num-seqs", "4")),
    "cache": Server(1.25, ("--max-num-seqs", "256", "--num-gpu-blocks-override", "130"), longest=1024),
    "chunk": Server(3, ("--max-num-seqs", "64", "--max-num-batched-tokens", "128")),
    "eager": Server(1.25, ("--max-num-seqs", "64", "--enforce-eager"), graphs=False),
    "speculation": Server(
        3,
        (
            *("--max-num-seqs", "64", "--speculative-config"),
            '{"method":"draft_model","model":"@small","num_speculative_tokens":5,"draft_tensor_parallel_size":1}',
        ),
    ),
    "wide": Server(2, ("--max-num-seqs", "64", "--dtype", "float32"), small=True, graphs=False),
    "small": Server(1.25, ("--max-num-seqs", "64"), small=True, graphs=False),
}


@dataclass(frozen=True)
class Case:
    """What is planted, at which load, what may be said of it, and which case is its fix."""

    server: str
    in_flight: int
    said: tuple[str, ...]
    """Any of these in the sentence or the next step; empty: no software may be blamed."""
    layers: tuple[str, ...]
    bounds: tuple[str, ...] = ("software",)
    fix: str | None = None
    inputs: str = "{distribution: fixed, value: 256}"
    outputs: int = 64
    precision: str = "bf16"
    plant: str = ""
    """What is done to the machine meanwhile."""
    metric: str = "throughput"


MIXED = "{distribution: empirical, values: [" + ", ".join(["128"] * 15 + ["6000"]) + "]}"
CASES: dict[str, Case] = {
    "healthy, 64": Case("healthy", 64, (), ("accelerator", ""), ("hardware", "undetermined")),
    "healthy, 1": Case("healthy", 1, (), ("accelerator", "demand", ""), ("hardware", "demand", "undetermined")),
    "sequences 4": Case("sequences", 64, ("--max-num-seqs",), ("serving",), fix="healthy, 64"),
    "cache of 130 blocks": Case(
        "cache",
        64,
        ("--num-gpu-blocks-override", "--gpu-memory-utilization", "--kv-cache-memory-bytes", "--kv-cache-dtype"),
        ("serving",),
        fix="healthy, 64",
    ),
    "chunk of 128": Case("chunk", 64, ("--max-num-batched-tokens",), ("serving",), fix="healthy, 64"),
    "healthy, 8": Case("healthy", 8, (), ("accelerator", "demand", ""), ("hardware", "demand", "undetermined")),
    "eager": Case("eager", 8, ("--enforce-eager",), ("serving", "runtime"), fix="healthy, 8"),
    "one core": Case("healthy", 64, ("core", "CPU"), ("system",), fix="healthy, 64", plant="starve"),
    "co-tenant": Case("healthy", 64, ("process",), ("system",), fix="healthy, 64", plant="share"),
    "clock at 510 MHz": Case("healthy", 64, ("clock",), ("system",), fix="healthy, 64", plant="slow"),
    "long amid short": Case(
        "healthy",
        32,
        ("--max-num-batched-tokens", "--long-prefill-token-threshold", "long"),
        ("serving", "demand"),
        ("software", "demand"),
        fix="short alone",
        inputs=MIXED,
        metric="first",
    ),
    "short alone": Case(
        "healthy",
        32,
        (),
        ("accelerator", ""),
        ("hardware", "undetermined", "demand"),
        inputs="{distribution: fixed, value: 128}",
    ),
    "rejected speculation": Case("speculation", 16, ("--speculative-config",), ("serving",), fix="healthy, 16"),
    "healthy, 16": Case("healthy", 16, (), ("accelerator", "demand", ""), ("hardware", "demand", "undetermined")),
    "float32": Case(
        "wide",
        8,
        ("--dtype",),
        ("serving", "application", "runtime"),
        fix="small, 8",
        inputs="{distribution: fixed, value: 1024}",
        outputs=16,
    ),
    "small, 8": Case(
        "small",
        8,
        (),
        ("accelerator", "serving", "demand", ""),
        ("hardware", "software", "demand", "undetermined"),
        inputs="{distribution: fixed, value: 1024}",
        outputs=16,
    ),
}
CONTRACT = """\
lynxbench: 1
name: planted-server
question: What bounds this server?
regime: throughput
workload:
  task: generate
  model: {{source: served, name: {model}}}
  precisions: [{precision}]
  input_tokens: {inputs}
  output_tokens: {{distribution: fixed, value: {outputs}}}
  arrival: {{process: closed, concurrency: {in_flight}}}
engine:
  name: openai
  url: http://127.0.0.1:{port}/v1
  dialect: vllm
  endpoint: completions
  processes: 2
protocol: {{restarts: 1, min_duration: {seconds} s, limit: {seconds} s, steady: {{drift: 20 %}}, foreign_load: 100 %}}
"""
