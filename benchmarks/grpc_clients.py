"""The driver's own gRPC path against gRPC's own library, both on one core against the ground-truth server.

`python benchmarks/grpc_clients.py [PYTHON]`: PYTHON is one with grpcio and tritonclient (`make servers` installs it as
.servers/triton/bin/python). Prints requests a second at 64 in flight, the error of the first answer's stamp against the
server's log, and lateness on a schedule, for both.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from lynxbench.engines.kserve_grpc import GrpcLanguage, build_grpc_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.selfcheck import measure_ceiling, measure_open_loop, measure_stamp_error, two_cores
from lynxbench.load.truth_process import running_server

SECONDS, STREAMS, TTFT_MS = 3.0, 16, 50.0
LIBRARY = """
import asyncio, json, sys, time
import grpc, numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
address, seconds, streams = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
request = service_pb2.ModelInferRequest(model_name="m")
async def ask(stub, until, taken):
    while time.perf_counter() < until:
        start = time.perf_counter_ns()
        async for answer in stub.ModelStreamInfer(iter([request])):
            taken.append(time.perf_counter_ns() - start)
async def main():
    async with grpc.aio.insecure_channel(address) as channel:
        stub, taken = service_pb2_grpc.GRPCInferenceServiceStub(channel), []
        start = time.perf_counter()
        await asyncio.gather(*(ask(stub, start + seconds, taken) for _ in range(streams)))
        print(json.dumps({"per_s": len(taken) / (time.perf_counter() - start), "mean_ms": float(np.mean(taken)) / 1e6}))
asyncio.run(main())
"""


def library(python: Path, url: str, streams: int) -> dict[str, float]:
    """What gRPC's own asyncio client reports of the same server."""
    address = url.removeprefix("http://").removesuffix("/v1")
    command = [str(python), "-c", LIBRARY, address, str(SECONDS), str(streams)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print one JSON document."""
    python = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    language = GrpcLanguage(streamed=True)
    report: dict[str, object] = {"cores": os.cpu_count()}
    with two_cores() as core:
        with running_server(Behaviour(), core) as server:
            ceiling = measure_ceiling(server.url, language, build_grpc_probe, 1, SECONDS)
            late = measure_open_loop(server.url, language, build_grpc_probe, SECONDS)
            theirs = library(python, server.url, ceiling.streams) if python else None
        error = measure_stamp_error(language, build_grpc_probe, STREAMS, SECONDS, core)
        report["driver"] = {
            "requests_per_s": round(ceiling.requests_per_s),
            "first_answer_error_ms": round(error.ttft_mean_ms, 3),
            "first_answer_p99_error_ms": round(error.ttft_p99_ms, 3),
            "between_answers_error": round(error.itl_mean_relative, 4),
            "lateness_mean_ms": round(late.lateness_mean_ms, 3),
            "lateness_p99_ms": round(late.lateness_p99_ms, 3),
        }
        if python and theirs:
            with running_server(Behaviour(ttft_ms=TTFT_MS), core) as server:
                seen = library(python, server.url, STREAMS)
                truth = server.stop()
            good = truth.outcome == ServedOutcome.OK
            true_ms = float(np.mean((truth.first_ns - truth.arrival_ns)[good])) / 1e6
            report["grpcio"] = {
                "requests_per_s": round(theirs["per_s"]),
                "first_answer_error_ms": round(seen["mean_ms"] - true_ms, 3),
            }
    sys.stdout.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
