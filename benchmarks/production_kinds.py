"""The driver's bars on the kinds of work that production sends: lateness, and the first token against the server's log.

`python benchmarks/production_kinds.py [--rate 200] [--seconds 4]`: one line a kind. The bundled server gives its first
token after 50 ms and logs when it did; what the client reports minus what was logged is the client's error. Client and
server share the cores of this machine.
"""

from __future__ import annotations

import argparse
import base64
import json
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.exchanging import exchange_of
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.instrument import judge
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import OpenLoop
from lynxbench.load.send_schedule import poisson
from lynxbench.load.truth_process import running_server
from lynxbench.run.client_job import plan_of
from lynxbench.workload.request_log import parse_log

CONTRACT = """\
lynxbench: 1
name: kinds
question: Is the client on time with this kind of work?
regime: latency
workload:
  task: {task}
  model: {{source: served, name: ground-truth}}
  precisions: [fp32]
{workload}
engine:
  name: openai
  url: {url}
{engine}
"""
LENGTHS = (
    "  input_tokens: {distribution: fixed, value: 64}\n  output_tokens: {distribution: fixed, value: 8}\n"
    "  arrival: {process: poisson, rate: 100 /s}"
)
REPLAY = "  arrival: {process: replay, path: trace.jsonl}"
OPEN = "  output_tokens: {distribution: fixed, value: 8}\n  arrival: {process: poisson, rate: 100 /s}"
CALIBRATION = TokenCalibration(has_usage=True, tokens_a_word=1.3, overhead=10.0)


def picture(seed: int, side: int) -> str:
    """A PNG of noise as a data address."""
    noise = np.random.default_rng(seed).integers(0, 256, (side, 3 * side), dtype=np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in noise)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 1)),
        (b"IEND", b""),
    )
    chunks = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts)
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def sound(seed: int) -> str:
    """A second of noise as a WAV file (16 bits, 8 kHz), as requests carry it."""
    noise = np.random.default_rng(seed).integers(-9000, 9000, 8000, dtype=np.int16).tobytes()
    form = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(noise), b"WAVE", b"fmt ", 16, 1, 1, 8000, 16_000, 2, 16,
                       b"data", len(noise))  # fmt: skip
    return base64.b64encode(form + noise).decode()


RANKED = (
    "  input_tokens: {distribution: fixed, value: 64}\n  arrival: {process: poisson, rate: 100 /s}\n"
    "  rerank: {documents: {distribution: uniform, low: 4, high: 28}}"
)
SOUND = "  arrival: {process: poisson, rate: 100 /s}\n  audio: {seconds: {distribution: uniform, low: 1, high: 3}}"
OTHERS = {"rerank, 16 documents": "rerank", "transcribe, 1 to 3 s": "transcribe"}
"""Kinds that are no generation, and their tasks."""


def kinds(folder: Path) -> dict[str, tuple[str, str, str]]:
    """Workload, engine and trace of each."""
    trace = []
    for n in range(200):
        hashes = [*range(n % 7 + 3), *range(900 + 20 * n, 913 + 20 * n - n % 7)]
        trace.append({"timestamp": 5 * n, "input_length": 8192, "output_length": 8, "hash_ids": hashes})
    sessions = [
        {"session": n, "call": call, "after": after, "gap": gap, "input_tokens": 200, "output_tokens": 8}
        for n in range(50)
        for call, after, gap in ((0, [], 0), (1, [0], 0.02), (2, [0], 0.01), (3, [1, 2], 0.03))
    ]
    images = [
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture(n, 64)}}]}]}
        for n in range(32)
    ]
    sounds = [
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "input_audio", "input_audio": {"data": sound(n), "format": "wav"}}],
                }
            ]
        }
        for n in range(32)
    ]
    for name, rows in (("sessions", sessions), ("images", images), ("sounds", sounds)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "made up": (LENGTHS, "", ""),
        "traced, 8192 tokens": (REPLAY, "  cache: traced", "\n".join(map(json.dumps, trace))),
        "sessions of 4 calls": (f"{OPEN}\n  prompts: {{file: {folder}/sessions.jsonl, form: sessions}}", "", ""),
        "images of 16 KB": (f"{OPEN}\n  prompts: {{file: {folder}/images.jsonl, form: jsonl}}", "", ""),
        "sound of 21 KB": (f"{OPEN}\n  prompts: {{file: {folder}/sounds.jsonl, form: jsonl}}", "", ""),
        "Responses": (LENGTHS, "  endpoint: responses", ""),
        "Messages": (LENGTHS, "  endpoint: messages", ""),
        "rerank, 16 documents": (RANKED, "", ""),
        "transcribe, 1 to 3 s": (SOUND, "", ""),
        "cancelled 20 %": (f"{LENGTHS}\n  cancel: {{share: 20 %, after_events: 3}}", "", ""),
    }


def main() -> None:
    """Measure each kind and say how the client fared."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=float, default=200.0, help="arrivals a second")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--kind", default="", help="only kinds whose name holds this")
    given = parser.parse_args()
    print(
        f"{'kind':<22}{'requests':>9}{'late mean':>12}{'late p99':>11}{'first token':>13}{'p99':>10}{'core':>7}  void"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, (workload, engine, trace) in kinds(Path(folder)).items():
            if given.kind not in name:
                continue
            with running_server(Behaviour(ttft_ms=50, itl_ms=10)) as server:
                task = OTHERS.get(name, "generate")
                terms = parse_contract(CONTRACT.format(task=task, workload=workload, engine=engine, url=server.url))
                log = parse_log(trace) if trace else None
                exchange = exchange_of(terms, run=1, trace=log, calibration=CALIBRATION)
                load = OpenLoop(poisson(given.rate, given.seconds, seed=2))
                record = run_probe(plan_of(terms, exchange, load, given.seconds, 0))
                truth = server.stop()
            fared, good = judge(record), record.kind == RequestEnd.OK
            served = truth.outcome == ServedOutcome.OK
            seen = np.sort(record.server_first_token_s()) * 1e3
            logged = np.sort((truth.first_ns - truth.arrival_ns)[served]) / 1e6
            error = seen - logged if len(seen) == len(logged) else np.array([np.nan])
            late = f"{fared.mean_lateness_s * 1e3:>9.3f} ms{fared.p99_lateness_s * 1e3:>8.3f} ms"
            stamps = f"{error.mean():>10.3f} ms{np.quantile(error, 0.99):>7.3f} ms"
            void = "; ".join(fared.reasons) or "no"
            print(f"{name:<22}{int(good.sum()):>9}{late}{stamps}{fared.cpu_share:>7.0%}  {void}", flush=True)


if __name__ == "__main__":
    main()
