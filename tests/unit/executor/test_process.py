"""The process seen from inside: real torch and ONNX Runtime in a process of their own, and made-up modules."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lynxbench.executor.host import Host
from lynxbench.executor.mapped import MappedLibrary
from lynxbench.executor.process import capture_process, cudnn_origin, describe_cuda, describe_torch
from lynxbench.model.executor import Status, Tier
from lynxbench.model.layers import Layer

REAL = """
import json, sys, time, warnings
warnings.simplefilter("error")
from lynxbench.executor.host import Host
from lynxbench.executor.python_packages import read_distributions
stamps = {name: field.value for name, field in read_distributions(Host()).items()}
assert "torch" not in sys.modules
import torch, onnxruntime
torch.set_num_threads(2)
torch.randn(64, 64) @ torch.randn(64, 64)
from lynxbench.executor.process import capture_process
laps = []
for _ in range(2):
    start = time.process_time()
    layers = capture_process()
    laps.append(time.process_time() - start)
print(json.dumps({"laps": laps, "version": torch.__version__, "stamps": [stamps["torch_git"], stamps["torch_cuda"]],
    "version_py": [torch.version.git_version, torch.version.cuda], "build": torch.__config__.show().strip(),
    "layers": {k.value: {n: f.model_dump(mode="json") for n, f in v.items()} for k, v in layers.items()}}))
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    cache = tmp_path_factory.mktemp("cache")
    environ = {**os.environ, "LYNXBENCH_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", REAL], check=True, capture_output=True, text=True, timeout=1800, env=environ
    )
    assert (cache / "library-hashes.json").exists()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
def test_torch_is_described_as_it_is_set(real: dict[str, Any]) -> None:
    framework = real["layers"]["framework"]
    assert framework["torch_version"]["value"] == real["version"]
    assert framework["torch_build"]["value"] == real["build"]
    assert framework["torch_threads"]["value"] == 2
    assert framework["torch_float32_matmul_precision"]["value"] == "highest"
    assert framework["torch_default_dtype"]["value"] == "torch.float32"
    assert "math" in framework["torch_sdp_backends"]["value"]
    unread = {name: field["source"] for name, field in framework.items() if field["status"] == "unreadable"}
    assert unread == {}


@pytest.mark.slow
def test_the_build_stamp_on_disk_is_what_torch_says(real: dict[str, Any]) -> None:
    assert real["stamps"] == real["version_py"]


@pytest.mark.slow
def test_libraries_carry_hashes_and_stable_names(real: dict[str, Any]) -> None:
    bundled = real["layers"]["runtime"]["native_libraries"]["value"]
    library = Path(find_spec("torch").origin or "").parent  # type: ignore[union-attr]
    library = library / "lib" / "libtorch_python.so"
    assert bundled["torch/lib/libtorch_python.so"] == hashlib.sha256(library.read_bytes()).hexdigest()
    assert not any(name.startswith("/") for name in bundled)
    assert all(isinstance(digest, str) and len(digest) == 64 for digest in bundled.values())
    system = real["layers"]["system"]["mapped_libraries"]["value"]
    assert any(name.startswith("libc.so") for name in system)


@pytest.mark.slow
def test_the_second_capture_does_not_hash_again(real: dict[str, Any]) -> None:
    first, second = real["laps"]  # of processor time: what others do to the machine meanwhile is not ours
    assert second < 0.5 * first


@pytest.mark.slow
def test_onnxruntime_is_described(real: dict[str, Any]) -> None:
    runtime = real["layers"]["runtime"]
    assert "CPUExecutionProvider" in runtime["onnxruntime_providers"]["value"]
    assert runtime["cudnn_origin"]["value"] == "not loaded"
    assert runtime["thread_pool_libraries"]["value"]


def test_nothing_is_imported_that_was_not_there(tmp_path: Path) -> None:
    layers = capture_process(host=Host(environ={"LYNXBENCH_CACHE": str(tmp_path), "OMP_NUM_THREADS": "2"}), modules={})
    assert layers[Layer.SYSTEM]["process_environment"].value == {"OMP_NUM_THREADS": "2"}
    assert layers[Layer.FRAMEWORK] == {}
    assert layers[Layer.SYSTEM]["process_affinity"].value
    assert "onnxruntime_version" not in layers[Layer.RUNTIME]


def test_an_unreadable_map_is_stated(tmp_path: Path) -> None:
    layers = capture_process(host=Host(root=tmp_path, environ={}), modules={})
    assert layers[Layer.RUNTIME]["native_libraries"].status is Status.UNREADABLE
    assert layers[Layer.SYSTEM]["mapped_libraries"].status is Status.UNREADABLE


def test_a_torch_that_lacks_everything_is_unreadable_not_fatal() -> None:
    fields = describe_torch(SimpleNamespace(version=SimpleNamespace(cuda="12.8", git_version="g", hip=None)))
    assert fields["torch_cuda"].value == "12.8"
    assert fields["torch_threads"].status is Status.UNREADABLE
    assert "get_num_threads" in fields["torch_threads"].source
    assert fields["torch_cuda_archs"].status is Status.UNREADABLE
    assert fields["torch_sdp_backends"].status is Status.UNREADABLE


def test_a_cuda_torch_tells_its_architectures_and_cudnn() -> None:
    torch = SimpleNamespace(
        version=SimpleNamespace(cuda="12.8"),
        _C=SimpleNamespace(_cuda_getArchFlags=lambda: "sm_80 sm_90 compute_90"),
        cuda=SimpleNamespace(is_initialized=lambda: True, nccl=SimpleNamespace(version=lambda: (2, 27, 5))),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002)),
    )
    fields = describe_torch(torch)
    assert fields["torch_cuda_archs"].value == ["sm_80", "sm_90", "compute_90"]
    assert fields["torch_cudnn"].value == 91002
    assert fields["torch_nccl"].value == [2, 27, 5]


def library(name: str, origin: str) -> MappedLibrary:
    return MappedLibrary(name, f"/nowhere/{name}", origin)


def test_mixed_cudnn_is_noticed() -> None:
    ours, theirs = library("nvidia/cudnn/lib/libcudnn.so.9", "bundled"), library("libcudnn_ops.so.9", "system")
    assert cudnn_origin([ours]) == "bundled"
    assert cudnn_origin([ours, theirs]) == "mixed"
    assert cudnn_origin([]) == "not loaded"


def test_cuda_versions_come_from_file_names() -> None:
    found = describe_cuda(
        [
            library("libcuda.so.580.65.06", "system"),
            library("libcudart.so.12.8.90", "bundled"),
            library("libm.so.6", "system"),
        ]
    )
    assert found == {"libcuda (system)": "580.65.06", "libcudart (bundled)": "12.8.90"}


def test_links_are_read_where_cuda_is_in_use(tmp_path: Path, fake_nvml: Any) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/maps").write_text("7f00-7f01 r-xp 00000000 08:01 11 /usr/lib/libcuda.so.1\n")
    host = Host(root=tmp_path, environ={"LYNXBENCH_CACHE": str(tmp_path / "cache")})
    fields = capture_process(host=host, modules={}, nvml=fake_nvml)[Layer.ACCELERATOR]
    assert fields["gpu_pcie_width_warm"].value == [16, 16, 16, 16, 16, 8, 16, 16]
    assert fields["gpu_pcie_width_warm"].tier is Tier.STATE
