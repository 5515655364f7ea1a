"""Where a server writes its traces, by what it was started with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lynxbench.executor.server import CapturedServer
from lynxbench.executor.server_on_host import ServerProcess
from lynxbench.model.dialect import Dialect
from lynxbench.model.executor import declared, measured
from lynxbench.model.layers import Layer
from lynxbench.run.profile_folder import folder_in_arguments, traces_folder

CONFIG = '{"profiler": "torch", "torch_profiler_dir": "/t"}'


def server_of(command=(), launch=(), *, pid=None, local=True):
    fields = {}
    if command:
        fields["server_command"] = measured(list(command), "test")
    if launch:
        fields["server_launch"] = declared(list(launch), "test")
    process = None if pid is None else ServerProcess(pid, 0.0, (pid,))
    return CapturedServer({Layer.SERVING: fields}, {}, process, local)


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (["vllm", "serve", "m", "--profiler-config", CONFIG], "/t"),
        (["vllm", f"--profiler-config={CONFIG}"], "/t"),
        (["vllm", "--profiler-config.torch_profiler_dir=/u"], "/u"),
        (["vllm", "--profiler-config.torch_profiler_dir", "/u"], "/u"),
        (["vllm", "--profiler-config", "{broken"], ""),
        (["vllm", "--profiler-config", '{"profiler": "cuda"}'], ""),
        (["vllm", "--profiler-config"], ""),
        (["vllm", "serve", "m"], ""),
    ],
)
def test_the_folder_in_arguments(words, folder):
    assert folder_in_arguments(words) == folder


def test_arguments_of_the_process_come_before_declared_ones():
    server = server_of(["vllm", "--profiler-config", CONFIG], ["--profiler-config.torch_profiler_dir=/u"])
    assert traces_folder(server, Dialect.VLLM) == Path("/t")
    assert traces_folder(server_of((), ["--profiler-config", CONFIG]), Dialect.VLLM) == Path("/t")


def test_what_is_missing_is_said():
    assert "another host" in traces_folder(server_of(["vllm"], local=False), Dialect.VLLM)
    assert "--profiler-config" in traces_folder(server_of(["vllm"]), Dialect.VLLM)
    assert "SGLANG_TORCH_PROFILER_DIR" in traces_folder(server_of(["sglang"]), Dialect.SGLANG)
    relative = server_of(["vllm", "--profiler-config.torch_profiler_dir=traces"])
    assert "relative to a folder that cannot be read" in traces_folder(relative, Dialect.VLLM)


def test_the_environment_and_the_working_folder_of_the_process(tmp_path):
    environment = {**os.environ, "VLLM_TORCH_PROFILER_DIR": "traces", "SGLANG_TORCH_PROFILER_DIR": "/s"}
    command = [sys.executable, "-I", "-S", "-c", "print(flush=True); input()"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        server = server_of(["python"], pid=process.pid)
        assert traces_folder(server, Dialect.VLLM) == tmp_path / "traces"
        assert traces_folder(server, Dialect.SGLANG) == Path("/s")
        process.communicate(b"\n")
    assert "name no folder" in traces_folder(server, Dialect.VLLM), "a process that is gone tells nothing"
