"""What a document may set for a process here: a short list of harmless variables, and nothing that names code."""

from __future__ import annotations

import pytest

from lynxbench.model.surroundings import Surroundings, is_harmless, take_over

LOADS_CODE = [
    *("PATH", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH", "BASH_ENV"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX", "PYTHONUSERBASE"),
    *("OMP_TOOL_LIBRARIES", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN"),
    *("TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "CC", "CXX"),
    *("HF_HOME", "HF_ENDPOINT", "HF_HUB_CACHE", "TRANSFORMERS_CACHE", "SSL_CERT_FILE", "OPENSSL_CONF"),
    *("HTTP_PROXY", "https_proxy", "ALL_PROXY", "LYNXBENCH_HOME", "LYNXBENCH_LEDGER", "MALLOC_CONF", "GLIBC_TUNABLES"),
    *("TMPDIR", "XDG_CACHE_HOME", "OMP_NUM_THREADS ", "omp_num_threads", "OMP_NUM_THREADS_X"),
]


@pytest.mark.parametrize("name", LOADS_CODE)
def test_what_could_name_code_a_place_or_an_address_is_never_taken_over(name: str) -> None:
    assert not is_harmless(name, "1")


@pytest.mark.parametrize(
    "value", ["/tmp/x.so", "a\\b", "$(id)", "`id`", "1\n2", "~", "%n", "ünicode", "1" * 201, "a\x1b[2J"]
)
def test_a_value_that_could_be_a_place_or_a_command_is_not_taken_over(value: str) -> None:
    assert is_harmless("OMP_PLACES", "{0:4},{4:4}")
    assert not is_harmless("OMP_PLACES", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_ARENA_MAX", "1"), ("CUBLAS_WORKSPACE_CONFIG", ":4096:8"), ("CUDA_VISIBLE_DEVICES", "0,1"),
     ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync,garbage_collection_threshold:0.6")],
)  # fmt: skip
def test_threads_allocators_and_devices_are_taken_over(name: str, value: str) -> None:
    taken = take_over(Surroundings(environment={name: value}), {}, {0})
    assert (taken.around, taken.left_out) == (Surroundings(environment={name: value}), ())


def test_what_is_left_out_is_named_and_what_stands_here_already_is_not_missing() -> None:
    around = Surroundings(environment={"PATH": "/evil", "LD_PRELOAD": "x.so", "OMP_NUM_THREADS": "2"}, cpus=(0, 7))
    taken = take_over(around, {"LD_PRELOAD": "x.so", "PATH": "/usr/bin"}, {0, 1})
    assert taken.left_out == ("PATH", "cpus")
    assert taken.around == Surroundings(environment={"OMP_NUM_THREADS": "2"})


def test_an_interpreter_comes_from_the_person_alone() -> None:
    asked = Surroundings(interpreter="/evil/python")
    assert take_over(asked, {}, {0}).left_out == ("interpreter",)
    assert take_over(asked, {}, {0}).around is None
    mine = take_over(asked, {}, {0}, "/mine/python")
    assert (mine.around, mine.left_out) == (Surroundings(interpreter="/mine/python"), ())
    assert take_over(None, {}, {0}, "/mine/python").around == Surroundings(interpreter="/mine/python")
    assert take_over(None, {}, {0}).around is None


def test_cpus_that_are_here_are_given() -> None:
    assert take_over(Surroundings(cpus=(0, 1)), {}, {0, 1, 2}).around == Surroundings(cpus=(0, 1))
    assert take_over(Surroundings(cpus=()), {}, {0}).around is None
