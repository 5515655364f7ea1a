"""Environment variables that change performance, by allow-list; what looks like a secret is never recorded. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lynxbench.model.secrets import name_looks_secret, value_looks_secret

ALLOWED_PREFIXES: tuple[str, ...] = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "ONEDNN_", "DNNL_", "VECLIB_", "NUMEXPR_",
    "TBB_", "ACL_",
    "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NCCL_", "NVTE_", "PYTORCH_", "TORCH_", "TORCHINDUCTOR_", "TRITON_",
    "XLA_", "JAX_", "TF_", "ORT_", "VLLM_", "SGLANG_", "TRTLLM_", "HIP_", "HSA_", "ROCR_", "ROCM_", "MIOPEN_", "RCCL_",
    "ONEAPI_", "SYCL_", "ZE_", "UCX_", "MALLOC_", "TCMALLOC_",
)  # fmt: skip
ALLOWED_NAMES: frozenset[str] = frozenset({
    "ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES", "GPU_DEVICE_ORDINAL", "HF_HUB_OFFLINE", "LD_BIND_NOW", "LD_LIBRARY_PATH",
    "LD_PRELOAD", "LRU_CACHE_CAPACITY", "MALLOC_CONF", "PYTHONDEVMODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED",
    "PYTHONMALLOC", "PYTHONNODEBUGRANGES", "PYTHONOPTIMIZE", "PYTHONPROFILEIMPORTTIME", "PYTHONTRACEMALLOC",
    "PYTHON_GIL", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_OFFLINE", "USE_TF", "USE_TORCH",
})  # fmt: skip
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """What may be recorded, and how many allowed names were withheld because they look like secrets."""

    variables: dict[str, str]
    withheld: int


def select_environment(environ: Mapping[str, str]) -> KnownEnvironment:
    """The variables that may be recorded; identities and the home folder are replaced by placeholders."""
    variables: dict[str, str] = {}
    withheld = 0
    home = environ.get("HOME", "")
    for name, value in sorted(environ.items()):
        if not is_allowed(name):
            continue
        if name_looks_secret(name) or value_looks_secret(value):
            withheld += 1
        else:
            variables[name] = _without_identity(value, home)
    return KnownEnvironment(variables, withheld)


def is_allowed(name: str) -> bool:
    """Whether a variable is on the allow-list."""
    return name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES)


def _without_identity(value: str, home: str) -> str:
    # A device named by UUID is the same configuration on every machine; a user's name is nobody's business.
    plain = _UUID.sub("<uuid>", value)
    return plain.replace(home, "~") if len(home) > 1 else plain
