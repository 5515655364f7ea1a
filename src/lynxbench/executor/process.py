"""The process that does the work, seen from inside after warm-up: mapped libraries, framework flags, thread pools."""

import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from typing import Any

from pydantic import JsonValue

from lynxbench.executor.host import KNOWN, Host, exact_json, explain, format_cpu_list
from lynxbench.executor.mapped import (
    HashCache,
    MappedLibrary,
    cache_folder,
    generated_folders,
    name_libraries,
    package_folders,
    parse_maps,
)
from lynxbench.executor.nvidia import load_nvml, read_links_now
from lynxbench.executor.system import select_environment
from lynxbench.executor.torch_devices import describe_other_devices
from lynxbench.model.executor import Field, Status, Tier, measured, unreadable
from lynxbench.model.layers import Layer

MAPS = "/proc/self/maps"
_OPENMP = re.compile(r"^lib(gomp|iomp5|omp)\b")
_THREAD_POOL = re.compile(
    r"^lib(gomp|iomp5|omp|tbb|tbbmalloc|openblas\w*|mkl_\w+|blis\w*|scipy_openblas\w*|nvpl\w*|arm_compute\w*)\b"
)


def capture_process(
    *,
    host: Host | None = None,
    modules: Mapping[str, Any] | None = None,
    nvml: Callable[[], Any] = load_nvml,
) -> dict[Layer, dict[str, Field]]:
    """What this process loaded and how it is set; nothing is imported that it did not import itself."""
    host = host or Host()
    loaded = sys.modules if modules is None else modules
    libraries = find_mapped(host)
    layers: dict[Layer, dict[str, Field]] = {
        Layer.RUNTIME: describe_libraries(libraries, host),
        Layer.SYSTEM: {**describe_system_libraries(libraries, host), **describe_confinement(host)},
        Layer.FRAMEWORK: {},
        Layer.ACCELERATOR: {},
    }
    if "torch" in loaded:
        layers[Layer.FRAMEWORK].update(describe_torch(loaded["torch"]))
        layers[Layer.ACCELERATOR].update(describe_other_devices(loaded["torch"], loaded.get("torch_xla")))
    if "onnxruntime" in loaded:
        layers[Layer.RUNTIME].update(describe_onnxruntime(loaded["onnxruntime"]))
    if any(library.name.startswith("libcuda.so") for library in libraries):
        layers[Layer.ACCELERATOR].update(read_links_now(nvml))
    return layers


def find_mapped(host: Host) -> list[MappedLibrary]:
    """Every shared object that is mapped now; none where the kernel does not show them."""
    try:
        return name_libraries(parse_maps(host.text(MAPS)), package_folders(), generated_folders(host.environ))
    except Exception:
        return []


def describe_libraries(libraries: list[MappedLibrary], host: Host) -> dict[str, Field]:
    """Bundled libraries with their hashes, the CUDA libraries' versions, the thread pools."""
    if not libraries:
        return {"native_libraries": unreadable(f"nothing could be read from {MAPS}")}
    bundled = [library for library in libraries if library.origin == "bundled"]
    own = [library for library in libraries if library.origin == "generated"]
    bare = {_bare(library.name) for library in libraries}
    pools: list[JsonValue] = sorted(n for n in bare if _THREAD_POOL.match(n))  # type: ignore[assignment]
    openmp: list[JsonValue] = sorted(lib.name for lib in libraries if _OPENMP.match(_bare(lib.name)))  # type: ignore[assignment]
    return {
        "native_libraries": measured(hash_libraries(bundled, host), f"{MAPS}, SHA-256 of each file"),
        "generated_libraries": measured(len(own), f"{MAPS}: compiled while running", Tier.STATE),
        "thread_pool_libraries": measured(pools, MAPS),
        "openmp_libraries": measured(openmp, MAPS),
        "cuda_libraries": measured(describe_cuda(libraries), f"{MAPS}, file names and package versions"),
        "cudnn_origin": measured(cudnn_origin(libraries), MAPS),
    }


def describe_system_libraries(libraries: list[MappedLibrary], host: Host) -> dict[str, Field]:
    """Libraries of the operating system and the driver that this process uses."""
    if not libraries:
        return {"mapped_libraries": unreadable(f"nothing could be read from {MAPS}")}
    system = [library for library in libraries if library.origin == "system"]
    return {"mapped_libraries": measured(hash_libraries(system, host), f"{MAPS}, SHA-256 of each file")}


def describe_confinement(host: Host) -> dict[str, Field]:
    """Environment and CPUs of this very process, which whoever started it may have set apart from the host's."""
    variables = select_environment(host.environ).variables
    return {
        "process_environment": measured(variables, "allow-listed environment variables of the process"),
        "process_affinity": measured(format_cpu_list(host.affinity()), "sched_getaffinity in the process"),
    }


def hash_libraries(libraries: Iterable[MappedLibrary], host: Host) -> dict[str, JsonValue]:
    """Name to SHA-256; null where the file on disk is no longer the one that was mapped, or cannot be read."""
    cache = HashCache(cache_folder(host.environ))
    hashes: dict[str, JsonValue] = {}
    for library in libraries:
        try:
            hashes[library.name] = None if library.replaced else cache.sha256(library.path)
        except OSError:
            hashes[library.name] = None
    cache.save()
    return hashes


def _bare(name: str) -> str:
    return name.rpartition("/")[2]


def describe_cuda(libraries: Iterable[MappedLibrary]) -> dict[str, JsonValue]:
    """Versions of the CUDA libraries that are loaded, by file name, else by the package that bundles them."""
    versions: dict[str, JsonValue] = {}
    for library in libraries:
        stem, _, rest = _bare(library.name).partition(".so")
        if stem not in KNOWN["libraries"]:
            continue
        version = _bare(os.path.realpath(library.path)).partition(".so.")[2] or rest.lstrip(".")
        if library.origin == "bundled" and version.count(".") < 2:
            version = _wheel_version(stem) or version
        versions[f"{stem} ({library.origin})"] = version or "unknown"
    return versions


def _wheel_version(stem: str) -> str | None:
    wheel = KNOWN["libraries"][stem]
    for suffix in ("", "-cu13", "-cu12", "-cu11") if wheel else ():
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(f"{wheel}{suffix}")
    return None


def cudnn_origin(libraries: Iterable[MappedLibrary]) -> str:
    """Where cuDNN's parts come from; a mixture has silently changed kernels before."""
    origins = {library.origin for library in libraries if _bare(library.name).startswith("libcudnn")}
    if not origins:
        return "not loaded"
    return origins.pop() if len(origins) == 1 else "mixed"


ATTENTION_SWITCHES = {"flash": "flash", "memory-efficient": "mem_efficient", "math": "math", "cudnn": "cudnn"}
"""Backends of scaled-dot-product attention, and what PyTorch calls the switch of each."""


def describe_torch(torch: Any) -> dict[str, Field]:
    """PyTorch as it is set in this process; asking must neither initialise a device nor warn."""
    source = "torch, in this process"
    fields = {name: _ask(torch, path, source) for name, path in KNOWN["torch"].items()}
    build = fields["torch_build"].value
    if isinstance(build, str):
        digest = hashlib.sha256(build.encode()).hexdigest()
        fields["torch_build_sha256"] = measured(digest, "SHA-256 of torch_build")
    fields["torch_sdp_backends"] = _sdp_backends(torch)
    if fields["torch_cuda"].value:
        archs = _ask(torch, "_C._cuda_getArchFlags()", source)
        listed = archs.value.split() if isinstance(archs.value, str) else None
        fields["torch_cuda_archs"] = archs if listed is None else measured([*listed], source)
    if _ask(torch, "cuda.is_initialized()", source).value is True:
        fields.update({name: _ask(torch, path, source) for name, path in KNOWN["torch_with_cuda"].items()})
    return fields


def describe_onnxruntime(runtime: Any) -> dict[str, Field]:
    """ONNX Runtime as it is loaded in this process."""
    return {name: _ask(runtime, path, "onnxruntime, in this process") for name, path in KNOWN["onnxruntime"].items()}


def _sdp_backends(torch: Any) -> Field:
    source = "torch, in this process"
    path = "backends.cuda.{}_sdp_enabled()"
    switches = {name: _ask(torch, path.format(word), source) for name, word in ATTENTION_SWITCHES.items()}
    if all(field.status is Status.UNREADABLE for field in switches.values()):
        return switches["math"]
    return measured([name for name, field in switches.items() if field.value is True], source)


def _ask(module: Any, path: str, source: str) -> Field:
    """Follow a dotted path of attributes and calls; what goes wrong becomes the field's reason."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = module
            for part in path.split("."):
                value = getattr(value, part.removesuffix("()"))
                if part.endswith("()"):
                    value = value()
            return measured(exact_json(value.strip() if isinstance(value, str) else value), source)
    except Exception as problem:
        return unreadable(explain(problem))
