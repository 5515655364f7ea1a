"""Environment variables that change performance, by allow-list; what looks like a secret is never recorded. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

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
HARMLESS_NAMES: frozenset[str] = frozenset({"TOKENIZERS_PARALLELISM"})
"""Names that hold a secret-looking word and are known not to be one. Their values are still looked at."""
WITHHELD_NAMES: frozenset[str] = frozenset({"LYNXBENCH_SALT"})

_SECRET_WORD = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|APIKEY|ACCESSKEY|PRIVATE|BEARER|COOKIE|SIGNATURE", re.IGNORECASE
)
_SECRET_PART = re.compile(
    r"(?:^|[^A-Z])(?:API|ACCESS|AUTH|SSH|ENCRYPTION|LICEN[CS]E)?(?:KEYS?|PASS|PWD|PW|PIN|AUTH|CERT|JWT|SAS|OAUTH|LOGIN)"
    r"(?:[^A-Z]|$)",
    re.IGNORECASE,
)
_URL_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@]*@", re.IGNORECASE)
_SECRET_ASSIGNED = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|credential|authorization|signature|\bsig)s?"
    r"[\"']?\s*[=:]",
    re.IGNORECASE,
)
_KNOWN_SHAPES = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:hf_[A-Za-z0-9]{8}|sk-[A-Za-z0-9_-]{8}|gh[pousr]_[A-Za-z0-9]{8}|github_pat_|glpat-|nvapi-|xox[abprs]-|"
    r"A[KS]IA[A-Z0-9]{12}|AIza[A-Za-z0-9_-]{10}|ya29\.|npm_[A-Za-z0-9]{8}|pypi-[A-Za-z0-9_-]{8}|"
    r"eyJ[A-Za-z0-9_-]{8,}\.)|-----BEGIN|\bBearer\s+\S|\bBasic\s+[A-Za-z0-9+/=]{8}",
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PIECES = re.compile(r"[^A-Za-z0-9+_-]+")

LONG_PIECE = 20
"""Shorter random strings are rare as credentials and common as settings."""
RANDOM_BITS_PER_CHARACTER = 3.0
"""English-like option names lie lower once they carry digits; random hex of 20 digits lies near 3.3, base64 near 4."""


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """What may be recorded, and how many allowed names were withheld because they look like secrets."""

    variables: dict[str, str]
    withheld: int


def select_environment(environ: Mapping[str, str]) -> KnownEnvironment:
    """The variables that may be recorded; identities and the home folder are replaced by placeholders."""
    kept: dict[str, str] = {}
    withheld = 0
    home = environ.get("HOME", "")
    for name in sorted(environ):
        if not is_allowed(name):
            continue
        value = environ[name]
        if name_looks_secret(name) or value_looks_secret(value):
            withheld += 1
            continue
        kept[name] = _without_identity(value, home)
    return KnownEnvironment(kept, withheld)


def is_allowed(name: str) -> bool:
    """Whether a variable is on the allow-list."""
    return name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES)


def name_looks_secret(name: str) -> bool:
    """Whether a name reads like that of a token, key, password or credential."""
    if name in WITHHELD_NAMES:
        return True
    return name not in HARMLESS_NAMES and bool(_SECRET_WORD.search(name) or _SECRET_PART.search(name))


def value_looks_secret(value: str) -> bool:
    """Whether a value holds credentials in a URL, an assigned secret, a known token shape or a long random string."""
    if value_is_credential(value):
        return True
    return any(_looks_random(piece) for piece in _PIECES.split(_UUID.sub("", value)))


def value_is_credential(value: str) -> bool:
    """The certain half of the rule, for values that may rightly hold hashes."""
    return bool(_URL_CREDENTIALS.search(value) or _SECRET_ASSIGNED.search(value) or _KNOWN_SHAPES.search(value))


def _looks_random(piece: str) -> bool:
    if len(piece) < LONG_PIECE:
        return False
    digits = sum(c.isdigit() for c in piece)
    letters = sum(c.isalpha() for c in piece)
    mixed_case = any(c.islower() for c in piece) and any(c.isupper() for c in piece)
    words = max((len(word) for word in re.split(r"[_+-]", piece)), default=0)
    if words < LONG_PIECE and not (mixed_case and digits):
        return False  # words joined by underscores are an option's name
    if digits < 2 and not mixed_case:
        return False
    return bool(digits + letters) and _bits_per_character(piece) >= RANDOM_BITS_PER_CHARACTER


def _bits_per_character(piece: str) -> float:
    return -sum(n / len(piece) * math.log2(n / len(piece)) for n in Counter(piece).values())


def _without_identity(value: str, home: str) -> str:
    # A device named by UUID is the same configuration on every machine; a user's name is nobody's business.
    plain = _UUID.sub("<uuid>", value)
    return plain.replace(home, "~") if len(home) > 1 else plain
