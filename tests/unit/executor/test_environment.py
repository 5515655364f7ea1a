"""The allow-list and the redaction rule."""

from __future__ import annotations

import pytest

from lynxbench.executor.environment import is_allowed, select_environment
from lynxbench.model.secrets import name_looks_secret, value_looks_secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OMP_NUM_THREADS", "8"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:512,garbage_collection_threshold:0.8"),
        ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"),
        ("KMP_AFFINITY", "granularity=fine,compact,1,0"),
        ("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("VLLM_ATTENTION_BACKEND", "FLASH_ATTN_VLLM_V1_AUTOTUNED"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda-12.4/lib64:/usr/local/nvidia/lib64"),
    ],
)
def test_settings_are_recorded(name: str, value: str) -> None:
    assert select_environment({name: value}).variables == {name: value}


@pytest.mark.parametrize(
    "name",
    ["VLLM_API_KEY", "TORCH_HUB_TOKEN", "NVIDIA_API_KEY", "CUDA_PASSWORD", "NCCL_SECRET", "HF_TOKEN", "LYNXBENCH_SALT",
     "VLLM_AUTH", "ORT_CREDENTIALS", "TF_ACCESS_KEYS", "vllm_pwd"],
)  # fmt: skip
def test_secret_names_are_never_recorded(name: str) -> None:
    assert name_looks_secret(name)
    assert name not in select_environment({name: "1"}).variables


@pytest.mark.parametrize(
    "value",
    ["https://me:pa55@hub.example/x", "http://token@host",
     "hf_abcdefghIJKL", "sk-proj-abcdef123456", "ghp_0123456789abcdef",
     "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.x", "-----BEGIN PRIVATE KEY-----", "Bearer abc",
     "opt=1,password=hunter2", "x?sig=abc", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "aB3dE5gH7jK9mN1pQ3sT5vW7"],
)  # fmt: skip
def test_secret_values_are_never_recorded(value: str) -> None:
    assert value_looks_secret(value)
    known = select_environment({"CUDA_SETTING": value})
    assert known.variables == {}
    assert known.withheld == 1


def test_unlisted_names_are_not_even_counted() -> None:
    known = select_environment({"EDITOR": "vi", "AWS_SECRET_ACCESS_KEY": "x", "PATH": "/bin"})
    assert known.variables == {}
    assert known.withheld == 0
    assert not is_allowed("HOME")


def test_identities_become_placeholders() -> None:
    environ = {
        "HOME": "/home/ada",
        "LD_LIBRARY_PATH": "/home/ada/lib",
        "CUDA_VISIBLE_DEVICES": "GPU-d61cda26-976e-154f-39df-a689da9c56f7",
    }
    assert select_environment(environ).variables == {
        "CUDA_VISIBLE_DEVICES": "GPU-<uuid>",
        "LD_LIBRARY_PATH": "~/lib",
    }
