"""Where a server writes the traces of its own profiler: by its launch arguments, else by its environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from lynxbench.executor.server import CapturedServer
from lynxbench.model.dialect import Dialect
from lynxbench.model.layers import Layer

OPTION = "--profiler-config"
"""vLLM 0.13 and later: JSON, or a part of it behind a dot."""
ENTRY = "torch_profiler_dir"
VARIABLES = {Dialect.VLLM: "VLLM_TORCH_PROFILER_DIR", Dialect.SGLANG: "SGLANG_TORCH_PROFILER_DIR"}
"""vLLM before 0.13, and SGLang."""
HOW = {
    Dialect.VLLM: 'start it with --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "/a/folder"}\' '
    "(before vLLM 0.13 with VLLM_TORCH_PROFILER_DIR=/a/folder)",
    Dialect.SGLANG: "start it with SGLANG_TORCH_PROFILER_DIR=/a/folder",
}


def traces_folder(server: CapturedServer, dialect: Dialect) -> Path | str:
    """The folder on this host, or why there is none."""
    if not server.is_local:
        return "the server runs on another host: its traces are not on this one"
    named = folder_in_arguments(_command(server)) or _environment(server).get(VARIABLES[dialect], "")
    if not named:
        return f"the server's arguments and environment name no folder for traces: {HOW[dialect]}"
    folder = Path(named)
    if not folder.is_absolute():
        base = _working_folder(server)
        if base is None:
            return f"the server writes its traces into {named}, which is relative to a folder that cannot be read"
        folder = base / folder
    return folder


def folder_in_arguments(words: Sequence[str]) -> str:
    """The folder that a command line names for traces; empty where it names none."""
    named = ""
    for place, word in enumerate(words):
        option, _, value = word.partition("=")
        value = value or (words[place + 1] if place + 1 < len(words) else "")
        if option == f"{OPTION}.{ENTRY}":
            named = value
        elif option in (OPTION, OPTION.replace("-", "_").replace("__", "--", 1)):
            try:
                config = json.loads(value)
            except ValueError:
                continue
            if isinstance(config, dict) and isinstance(config.get(ENTRY), str):
                named = config[ENTRY]
    return named


def _command(server: CapturedServer) -> list[str]:
    fields = server.layers.get(Layer.SERVING, {})
    for name in ("server_command", "server_launch"):
        field = fields.get(name)
        if field is not None and isinstance(field.value, list):
            return [str(word) for word in field.value]
    return []


def _environment(server: CapturedServer) -> Mapping[str, str]:
    """Of the server's process; empty where this user may not read it."""
    if server.process is None:
        return {}
    try:
        return psutil.Process(server.process.pid).environ()
    except psutil.Error:
        return {}


def _working_folder(server: CapturedServer) -> Path | None:
    if server.process is None:
        return None
    try:
        return Path(psutil.Process(server.process.pid).cwd())
    except psutil.Error:
        return None
