"""CUDA compatibility on four axes: driver, toolkit, framework build, device capability. Pure.

Sources: NVIDIA, "CUDA Compatibility" (minor-version and forward compatibility, driver floors) and "CUDA C++ Programming
Guide" (binary compatibility within a major capability, PTX forward only).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from lynxbench.model.document import Document
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer

Version = tuple[int, ...]

DRIVER_FLOORS: dict[int, int] = {11: 450, 12: 525, 13: 580}
"""Oldest driver branch that runs any minor release of a CUDA major release."""
FIRST_TOOLKIT: dict[Version, Version] = {
    (7, 0): (9, 0), (7, 5): (10, 0), (8, 0): (11, 0), (8, 6): (11, 1), (8, 7): (11, 4), (8, 9): (11, 8),
    (9, 0): (11, 8), (10, 0): (12, 8), (10, 3): (12, 9), (12, 0): (12, 8), (12, 1): (12, 9),
}  # fmt: skip
"""First CUDA release that compiles for a capability."""
DROPPED_BELOW: dict[int, Version] = {12: (5, 0), 13: (7, 5)}
"""A CUDA major release no longer compiles for capabilities below this."""


class FindingVerdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


class CompatibilityFinding(Document):
    """One pair of axes, or one condition, judged."""

    subject: str
    verdict: FindingVerdict
    reason: str
    layer: Layer


@dataclass(frozen=True, slots=True)
class CudaStack:
    """The four axes; None where one is unknown."""

    driver: str | None = None
    driver_cuda: str | None = None
    """The newest CUDA release the driver itself supports, as nvidia-smi prints it."""
    toolkit: str | None = None
    """The CUDA runtime libraries that are installed: bundled wheels, else the system's toolkit."""
    framework: str | None = None
    framework_cuda: str | None = None
    framework_archs: tuple[str, ...] | None = None
    """Such as sm_90, sm_90a, compute_90; known once the framework is loaded."""
    capabilities: tuple[str, ...] = ()
    forward_compatibility: str | None = None
    """The version of an installed cuda-compat package."""


def parse_version(text: str | None) -> Version | None:
    """The leading numbers of a version, or None."""
    match = re.match(r"\s*(\d+(?:\.\d+)*)", text or "")
    return tuple(int(part) for part in match.group(1).split(".")) if match else None


@dataclass(frozen=True, slots=True)
class _Axes:
    """A pair of axes, and the layer whose owner can change how they fit."""

    subject: str
    layer: Layer

    def finding(self, verdict: FindingVerdict, reason: str) -> CompatibilityFinding:
        return CompatibilityFinding(subject=self.subject, verdict=verdict, reason=reason, layer=self.layer)


OK, WARNING, BROKEN = FindingVerdict.OK, FindingVerdict.WARNING, FindingVerdict.BROKEN
_RUNTIME = _Axes("driver x CUDA runtime", Layer.SYSTEM)
_TOOLKIT = _Axes("toolkit x framework build", Layer.FRAMEWORK)
_BUILD = _Axes("framework build x device", Layer.FRAMEWORK)
_DRIVER = _Axes("driver x device", Layer.SYSTEM)


def check_cuda(stack: CudaStack) -> tuple[CompatibilityFinding, ...]:
    """Findings on every pair of axes that both sides are known of."""
    if not stack.capabilities and stack.framework_cuda is None and stack.driver is None:
        nothing = f"no NVIDIA device, no driver, {stack.framework or 'no framework'} without CUDA: nothing to match"
        return (_Axes("cuda", Layer.SYSTEM).finding(OK, nothing),)
    return (
        *_driver_and_runtime(stack),
        *_toolkit_and_framework(stack),
        *_framework_and_devices(stack),
        *_driver_and_devices(stack),
    )


def _driver_and_runtime(stack: CudaStack) -> Iterator[CompatibilityFinding]:
    release = stack.framework_cuda or stack.toolkit
    runtime = parse_version(stack.framework_cuda) or parse_version(stack.toolkit)
    if runtime is None:
        return
    driver, own = parse_version(stack.driver), parse_version(stack.driver_cuda)
    floor = DRIVER_FLOORS.get(runtime[0])
    if driver is None:
        reason = f"CUDA {release} is installed, but no NVIDIA driver answers: work stays on the CPU"
        yield _RUNTIME.finding(WARNING, reason)
    elif floor is None:
        yield _RUNTIME.finding(WARNING, f"no driver floor is known for CUDA {release}")
    elif driver[0] < floor and stack.forward_compatibility:
        reason = (
            f"driver {stack.driver} is below {floor} for CUDA {release}; it rests on the forward-compatibility "
            f"package {stack.forward_compatibility} (data-centre devices only)"
        )
        yield _RUNTIME.finding(WARNING, reason)
    elif driver[0] < floor:
        reason = f"CUDA {release} needs driver {floor} or newer; driver {stack.driver} is installed: update the driver"
        yield _RUNTIME.finding(BROKEN, reason)
    elif own is not None and own[:2] < runtime[:2]:
        reason = (
            f"driver {stack.driver} supports CUDA {stack.driver_cuda}; CUDA {release} runs by minor-version "
            "compatibility: no PTX of it can be compiled at load, and newer features may be missing"
        )
        yield _RUNTIME.finding(WARNING, reason)
    else:
        yield _RUNTIME.finding(OK, f"driver {stack.driver} meets the floor {floor} of CUDA {release}")


def _toolkit_and_framework(stack: CudaStack) -> Iterator[CompatibilityFinding]:
    built, toolkit = parse_version(stack.framework_cuda), parse_version(stack.toolkit)
    if built is None or toolkit is None:
        return
    framework = stack.framework or "the framework"
    if toolkit[0] != built[0]:
        reason = (
            f"{framework} was built for CUDA {stack.framework_cuda}, the installed toolkit is {stack.toolkit}: "
            "extensions built here do not load"
        )
        yield _TOOLKIT.finding(WARNING, reason)
    elif toolkit[:2] < built[:2]:
        reason = (
            f"{framework} was built for CUDA {stack.framework_cuda}, older libraries {stack.toolkit} are installed: "
            "symbols may be missing"
        )
        yield _TOOLKIT.finding(WARNING, reason)
    else:
        yield _TOOLKIT.finding(OK, f"{framework} built for CUDA {stack.framework_cuda}, toolkit {stack.toolkit}")


def _framework_and_devices(stack: CudaStack) -> Iterator[CompatibilityFinding]:
    built = parse_version(stack.framework_cuda)
    if not stack.capabilities:
        if stack.framework_cuda is not None:
            reason = f"{stack.framework} is a CUDA {stack.framework_cuda} build; no device is here to run it"
            yield _BUILD.finding(OK, reason)
    elif stack.framework is None:
        yield _BUILD.finding(WARNING, "no framework is installed that could use the devices")
    elif stack.framework_cuda is None:
        reason = f"{stack.framework} is built without CUDA: it cannot use the devices; install a CUDA build"
        yield _BUILD.finding(BROKEN, reason)
    elif built is None:
        reason = f"{stack.framework} names its CUDA release as {stack.framework_cuda!r}: nothing can be matched"
        yield _BUILD.finding(WARNING, reason)
    else:
        for capability in sorted(set(stack.capabilities)):
            device = parse_version(capability)
            if device is None:
                reason = f"a device names its capability as {capability!r}: nothing can be matched"
                yield _Axes(_BUILD.subject, Layer.ACCELERATOR).finding(WARNING, reason)
            elif stack.framework_archs is None:
                yield _by_toolkit(stack, built, capability, device)
            else:
                yield _by_archs(stack, built, capability, device, stack.framework_archs)


def _by_toolkit(stack: CudaStack, built: Version, capability: str, device: Version) -> CompatibilityFinding:
    """Without the architecture list only the release can be judged."""
    if device < DROPPED_BELOW.get(built[0], ()):
        return _BUILD.finding(BROKEN, f"CUDA {built[0]} no longer supports capability {capability}")
    first = FIRST_TOOLKIT.get(device)
    if first and built[:2] < first:
        reason = (
            f"capability {capability} came with CUDA {first[0]}.{first[1]}; {stack.framework} is built for "
            f"{stack.framework_cuda}: at best PTX compiled at load"
        )
        return _BUILD.finding(WARNING, reason)
    reason = (
        f"CUDA {stack.framework_cuda} compiles for capability {capability}; the build's own list is known once it is "
        "loaded"
    )
    return _BUILD.finding(OK, reason)


def _by_archs(
    stack: CudaStack, built: Version, capability: str, device: Version, archs: tuple[str, ...]
) -> CompatibilityFinding:
    binary = [arch for arch in archs if _binary_runs(arch, device)]
    if binary:
        return _BUILD.finding(OK, f"{stack.framework} carries {binary[-1]} for capability {capability}")
    portable = [arch for arch in archs if _ptx_runs(arch, device)]
    own = parse_version(stack.driver_cuda)
    if portable and own and own[:2] < built[:2]:
        reason = (
            f"only PTX ({portable[-1]}) fits capability {capability}, and driver {stack.driver} "
            f"(CUDA {stack.driver_cuda}) cannot compile PTX of CUDA {stack.framework_cuda}"
        )
        return _BUILD.finding(BROKEN, reason)
    if portable:
        reason = (
            f"no binary for capability {capability}; PTX ({portable[-1]}) is compiled at first use and misses newer "
            "instructions"
        )
        return _BUILD.finding(WARNING, reason)
    listed = " ".join(archs) or "none"
    reason = (
        f"{stack.framework} carries {listed}: nothing that runs on capability {capability}; install a build that does"
    )
    return _BUILD.finding(BROKEN, reason)


def parse_arch(arch: str) -> tuple[str, Version, str] | None:
    """`sm_90a` as kind, capability and suffix."""
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch.strip())
    return (match.group(1), (int(match.group(2)), int(match.group(3))), match.group(4)) if match else None


def _binary_runs(arch: str, device: Version) -> bool:
    parsed = parse_arch(arch)
    if parsed is None or parsed[0] != "sm":
        return False
    _, built, suffix = parsed
    if suffix == "a":
        return built == device  # architecture-specific code runs nowhere else
    return built[0] == device[0] and built[1] <= device[1]


def _ptx_runs(arch: str, device: Version) -> bool:
    parsed = parse_arch(arch)
    return parsed is not None and parsed[0] == "compute" and not parsed[2] and parsed[1] <= device


def _driver_and_devices(stack: CudaStack) -> Iterator[CompatibilityFinding]:
    own = parse_version(stack.driver_cuda)
    if own is None:
        return
    driver = f"driver {stack.driver} (CUDA {stack.driver_cuda})"
    for capability in sorted(set(stack.capabilities)):
        first = FIRST_TOOLKIT.get(parse_version(capability) or ())
        if first and own[:2] < first:
            reason = f"{driver} is older than the first release for capability {capability}, CUDA {first[0]}.{first[1]}"
            yield _DRIVER.finding(BROKEN, reason)
        else:
            yield _DRIVER.finding(OK, f"{driver} knows capability {capability}")


def cuda_stack(executor: Executor) -> CudaStack:
    """The four axes as an executor's fields state them."""

    def text(layer: Layer, name: str) -> str | None:
        value = executor.get(layer, name)
        return value if isinstance(value, str) and value else None

    capabilities = executor.get(Layer.ACCELERATOR, "gpu_capability")
    archs = executor.get(Layer.FRAMEWORK, "torch_cuda_archs")
    torch = text(Layer.FRAMEWORK, "torch")
    return CudaStack(
        driver=text(Layer.SYSTEM, "nvidia_driver"),
        driver_cuda=text(Layer.SYSTEM, "nvidia_driver_cuda"),
        toolkit=_toolkit(executor),
        framework=f"torch {torch}" if torch else None,
        framework_cuda=text(Layer.FRAMEWORK, "torch_cuda"),
        framework_archs=tuple(str(arch) for arch in archs) if isinstance(archs, list) and archs else None,
        capabilities=tuple(str(c) for c in capabilities if c) if isinstance(capabilities, list) else (),
        forward_compatibility=_forward_package(executor.get(Layer.SYSTEM, "system_libraries")),
    )


def _toolkit(executor: Executor) -> str | None:
    wheels = executor.get(Layer.FRAMEWORK, "distributions")
    if isinstance(wheels, dict):
        for name, version in sorted(wheels.items(), reverse=True):
            if re.fullmatch(r"nvidia-cuda-runtime(-cu\d+)?", name):
                return str(version)
    toolkits = executor.get(Layer.SYSTEM, "cuda_toolkits")
    if isinstance(toolkits, dict) and toolkits:
        return str(toolkits.get("cuda") or next(iter(toolkits.values())))
    return None


def _forward_package(libraries: JsonValue) -> str | None:
    """Two versions of libcuda side by side mean that a cuda-compat package lies beside the driver's own."""
    seen = libraries.get("libcuda") if isinstance(libraries, dict) else None
    versions = [v for v in seen if isinstance(v, str) and "." in v] if isinstance(seen, list) else []
    return max(versions, key=lambda v: parse_version(v) or ()) if len(versions) > 1 else None


def check_compatibility(executor: Executor) -> tuple[CompatibilityFinding, ...]:
    """The CUDA check of a captured executor."""
    return check_cuda(cuda_stack(executor))
