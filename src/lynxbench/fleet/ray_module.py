"""Ray itself, imported on first need and told to keep to itself."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from lynxbench.errors import BadInput

QUIET: dict[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Nothing is reported to anybody; a task without GPUs leaves CUDA_VISIBLE_DEVICES as the node has it."""
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""With this Ray takes 127.0.0.1 for the address of this machine, and then listens nowhere else."""


def import_ray(*, loopback: bool = False) -> ModuleType:
    """Ray, or one line that says how to get it. `loopback` must be said before anything else imports Ray."""
    for name, value in (QUIET | (LOOPBACK if loopback else {})).items():
        os.environ.setdefault(name, value)
    if loopback and "ray" in sys.modules:
        from ray._private import ray_constants

        if ray_constants.ENABLE_RAY_CLUSTER:
            raise BadInput("Ray was imported before and would listen on every address; start a fresh process")
    try:
        import ray
    except ModuleNotFoundError as missing:
        if missing.name != "ray":
            raise
        raise BadInput("a fleet needs Ray: pip install 'lynxbench[ray]'") from None
    module: ModuleType = ray
    return module
