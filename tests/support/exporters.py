"""Exporters of a node: texts written after the documents of dcgm-exporter and node_exporter, and a live HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

H200 = "NVIDIA H200"
LABELS = (
    'gpu="{gpu}",UUID="GPU-{uuid}",pci_bus_id="00000000:1B:00.0",device="nvidia{gpu}",modelName="{model}",'
    'Hostname="gpu-7"'
)


def device_lines(
    gpu: int = 0,
    *,
    energy_mj: float = 5e9,
    power_w: float = 612.5,
    clock_mhz: float = 1980,
    reasons: int = 0,
    uuid: str = "",
    model: str = H200,
    extra: str = "",
) -> str:
    """One device as dcgm-exporter shows it."""
    labels = "{" + LABELS.format(gpu=gpu, uuid=uuid or f"{gpu:08x}", model=model) + extra + "}"
    values = {
        "DCGM_FI_DEV_SM_CLOCK": clock_mhz,
        "DCGM_FI_DEV_MAX_SM_CLOCK": 1980,
        "DCGM_FI_DEV_MEM_CLOCK": 3201,
        "DCGM_FI_DEV_GPU_TEMP": 61,
        "DCGM_FI_DEV_POWER_USAGE": power_w,
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": 700,
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF": 700,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": energy_mj,
        "DCGM_FI_DEV_GPU_UTIL": 97,
        "DCGM_FI_DEV_FB_USED": 120000,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": reasons,
        "DCGM_FI_DEV_POWER_VIOLATION": 123456789,
        "DCGM_FI_PROF_SM_ACTIVE": 0.81,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.34,
        "DCGM_FI_PROF_DRAM_ACTIVE": 0.62,
    }
    return "".join(f"# TYPE {name} gauge\n{name}{labels} {value}\n" for name, value in values.items())


def host_lines(seconds: float, busy: float = 0.25, *, now_s: float | None = None, boot_s: float = 1.7e9) -> str:
    """A host of two CPUs as node_exporter shows it, `seconds` after its start."""
    lines = []
    for cpu in (0, 1):
        for mode, share in (("idle", 1 - busy - 0.05), ("user", busy), ("steal", 0.05)):
            lines.append(f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {seconds * share:.3f}')
        lines.append(f'node_cpu_seconds_total{{cpu="{cpu}",mode="iowait"}} 0')
        lines.append(f'node_cpu_scaling_frequency_hertz{{cpu="{cpu}"}} 3.1e+09')
    lines += ["node_load1 0.71", "node_memory_MemTotal_bytes 1.6e+10", "node_memory_MemAvailable_bytes 1.2e+10"]
    lines += [f"node_boot_time_seconds {boot_s}"]
    lines += [f"node_time_seconds {now_s:.6f}"] if now_s is not None else []
    return "\n".join(lines) + "\n"


Answer = Callable[[str, dict[str, list[str]]], tuple[int, str]]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A live server on this machine; its address. `answer` gets path and query, and gives status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            status, body = answer(parts.path, parse_qs(parts.query))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *words: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def matrix(series: dict[str, tuple[dict[str, str], list[tuple[float, float]]]]) -> str:
    """Prometheus' answer to a range: by any key, labels with their name and the stored samples."""
    result = [
        {"metric": labels, "values": [[at_s, str(value)] for at_s, value in values]}
        for labels, values in series.values()
    ]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
