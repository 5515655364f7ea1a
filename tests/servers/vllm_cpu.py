"""vLLM on a CPU, run by the Python of its own environment: `python vllm_cpu.py MODEL TRACES PORT`.

It prints its address once it has answered a whole request (on a CPU it says that it is well before that and may die of
the first one), and serves until its standard input closes. Its profiler writes into the folder TRACES, without stacks.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request

CONFIG = {"profiler": "torch", "torch_profiler_with_stack": False, "torch_profiler_dump_cuda_time_total": False}


def answers(url: str) -> bool:
    """Whether it completes a prompt."""
    body = json.dumps({"model": "m", "prompt": "the river", "max_tokens": 1}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status == 200
    except OSError:
        return False


def main(model: str, traces: str, port: str) -> None:
    """Start it, say where it is, and end it."""
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "m"]
    command += [
        "--host",
        "127.0.0.1",
        "--port",
        port,
        "--max-model-len",
        "512",
        "--dtype",
        "float32",
        "--enforce-eager",
    ]
    command += ["--profiler-config", json.dumps({**CONFIG, "torch_profiler_dir": traces})]
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    server = subprocess.Popen(command, stdout=sys.stderr, env={**os.environ, **environment})
    url = f"http://127.0.0.1:{port}"
    try:
        while not answers(url):
            if server.poll() is not None:
                sys.exit(server.returncode)
            time.sleep(0.5)
        print(url, flush=True)
        sys.stdin.read()
    finally:
        server.terminate()
        server.wait(15)


if __name__ == "__main__":
    main(*sys.argv[1:4])
