"""CUDA compatibility on four axes: driver, toolkit, framework build, device capability. Pure.

Sources: NVIDIA, "CUDA Compatibility" (minor-version and forward compatibility, driver floors) and "CUDA C++ Programming
Guide" (binary compatibility within a major capability, PTX forward only).
"""

from __future__ import annotations

import re
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


def check_cuda(stack: CudaStack) -> tuple[CompatibilityFinding, ...]:
    """Findings on every pair of axes that both sides are known of."""
    if not stack.capabilities and stack.framework_cuda is None and stack.driver is None:
        named = stack.framework or "no framework"
        return (
            _found(
                "cuda",
                FindingVerdict.OK,
                f"no NVIDIA device, no driver, {named} without CUDA: nothing to match",
                Layer.SYSTEM,
            ),
        )
    findings: list[CompatibilityFinding] = []
    findings += _driver_and_runtime(stack)
    findings += _toolkit_and_framework(stack)
    findings += _framework_and_devices(stack)
    findings += _driver_and_devices(stack)
    return tuple(findings)


def _found(subject: str, verdict: FindingVerdict, reason: str, layer: Layer) -> CompatibilityFinding:
    return CompatibilityFinding(subject=subject, verdict=verdict, reason=reason, layer=layer)


def _driver_and_runtime(stack: CudaStack) -> list[CompatibilityFinding]:
    subject = "driver x CUDA runtime"
    wanted = parse_version(stack.framework_cuda) or parse_version(stack.toolkit)
    said = stack.framework_cuda or stack.toolkit
    driver = parse_version(stack.driver)
    if wanted is None:
        return []
    if driver is None:
        return [
            _found(
                subject,
                FindingVerdict.WARNING,
                f"CUDA {said} is installed, but no NVIDIA driver answers: work stays on the CPU",
                Layer.SYSTEM,
            )
        ]
    floor = DRIVER_FLOORS.get(wanted[0])
    if floor is None:
        return [_found(subject, FindingVerdict.WARNING, f"no driver floor is known for CUDA {said}", Layer.SYSTEM)]
    if driver[0] < floor:
        if stack.forward_compatibility:
            why = (
                f"driver {stack.driver} is below {floor} for CUDA {said}; it rests on the forward-compatibility "
                f"package {stack.forward_compatibility} (data-centre devices only)"
            )
            return [_found(subject, FindingVerdict.WARNING, why, Layer.SYSTEM)]
        why = f"CUDA {said} needs driver {floor} or newer; driver {stack.driver} is installed: update the driver"
        return [_found(subject, FindingVerdict.BROKEN, why, Layer.SYSTEM)]
    own = parse_version(stack.driver_cuda)
    if own is not None and own[:2] < wanted[:2]:
        why = (
            f"driver {stack.driver} supports CUDA {stack.driver_cuda}; CUDA {said} runs by minor-version "
            "compatibility: no PTX of it can be compiled at load, and newer features may be missing"
        )
        return [_found(subject, FindingVerdict.WARNING, why, Layer.SYSTEM)]
    return [
        _found(
            subject, FindingVerdict.OK, f"driver {stack.driver} meets the floor {floor} of CUDA {said}", Layer.SYSTEM
        )
    ]


def _toolkit_and_framework(stack: CudaStack) -> list[CompatibilityFinding]:
    subject = "toolkit x framework build"
    built, toolkit = parse_version(stack.framework_cuda), parse_version(stack.toolkit)
    if built is None or toolkit is None:
        return []
    named = stack.framework or "the framework"
    if toolkit[0] != built[0]:
        why = (
            f"{named} was built for CUDA {stack.framework_cuda}, the installed toolkit is {stack.toolkit}: "
            "extensions built here do not load"
        )
        return [_found(subject, FindingVerdict.WARNING, why, Layer.FRAMEWORK)]
    if toolkit[:2] < built[:2]:
        why = (
            f"{named} was built for CUDA {stack.framework_cuda}, older libraries {stack.toolkit} are installed: "
            "symbols may be missing"
        )
        return [_found(subject, FindingVerdict.WARNING, why, Layer.FRAMEWORK)]
    return [
        _found(
            subject,
            FindingVerdict.OK,
            f"{named} built for CUDA {stack.framework_cuda}, toolkit {stack.toolkit}",
            Layer.FRAMEWORK,
        )
    ]


def _framework_and_devices(stack: CudaStack) -> list[CompatibilityFinding]:
    subject = "framework build x device"
    if not stack.capabilities:
        if stack.framework_cuda is None:
            return []
        return [
            _found(
                subject,
                FindingVerdict.OK,
                f"{stack.framework} is a CUDA {stack.framework_cuda} build; no device is here to run it",
                Layer.FRAMEWORK,
            )
        ]
    if stack.framework is None:
        return [
            _found(
                subject, FindingVerdict.WARNING, "no framework is installed that could use the devices", Layer.FRAMEWORK
            )
        ]
    if stack.framework_cuda is None:
        why = f"{stack.framework} is built without CUDA: it cannot use the devices; install a CUDA build"
        return [_found(subject, FindingVerdict.BROKEN, why, Layer.FRAMEWORK)]
    if parse_version(stack.framework_cuda) is None:
        why = f"{stack.framework} names its CUDA release as {stack.framework_cuda!r}: nothing can be matched"
        return [_found(subject, FindingVerdict.WARNING, why, Layer.FRAMEWORK)]
    findings = []
    for capability in sorted(set(stack.capabilities)):
        if parse_version(capability) is None:
            why = f"a device names its capability as {capability!r}: nothing can be matched"
            findings.append(_found(subject, FindingVerdict.WARNING, why, Layer.ACCELERATOR))
        elif stack.framework_archs is None:
            findings.append(_by_toolkit(subject, stack, capability))
        else:
            findings.append(_by_archs(subject, stack, capability, stack.framework_archs))
    return findings


def _by_toolkit(subject: str, stack: CudaStack, capability: str) -> CompatibilityFinding:
    """Without the architecture list only the release can be judged."""
    device, built = parse_version(capability), parse_version(stack.framework_cuda)
    assert device is not None
    assert built is not None
    dropped = DROPPED_BELOW.get(built[0])
    if dropped and device < dropped:
        return _found(
            subject,
            FindingVerdict.BROKEN,
            f"CUDA {built[0]} no longer supports capability {capability}",
            Layer.FRAMEWORK,
        )
    first = FIRST_TOOLKIT.get(device)
    if first and built[:2] < first:
        why = (
            f"capability {capability} came with CUDA {first[0]}.{first[1]}; {stack.framework} is built for "
            f"{stack.framework_cuda}: at best PTX compiled at load"
        )
        return _found(subject, FindingVerdict.WARNING, why, Layer.FRAMEWORK)
    why = (
        f"CUDA {stack.framework_cuda} compiles for capability {capability}; the build's own list is known once it is "
        "loaded"
    )
    return _found(subject, FindingVerdict.OK, why, Layer.FRAMEWORK)


def _by_archs(subject: str, stack: CudaStack, capability: str, archs: tuple[str, ...]) -> CompatibilityFinding:
    device = parse_version(capability)
    assert device is not None
    listed = " ".join(archs) or "none"
    binary = [arch for arch in archs if _binary_runs(arch, device)]
    if binary:
        return _found(
            subject,
            FindingVerdict.OK,
            f"{stack.framework} carries {binary[-1]} for capability {capability}",
            Layer.FRAMEWORK,
        )
    portable = [arch for arch in archs if _ptx_runs(arch, device)]
    if portable:
        own, built = parse_version(stack.driver_cuda), parse_version(stack.framework_cuda)
        if own and built and own[:2] < built[:2]:
            why = (
                f"only PTX ({portable[-1]}) fits capability {capability}, and driver {stack.driver} "
                f"(CUDA {stack.driver_cuda}) cannot compile PTX of CUDA {stack.framework_cuda}"
            )
            return _found(subject, FindingVerdict.BROKEN, why, Layer.FRAMEWORK)
        why = (
            f"no binary for capability {capability}; PTX ({portable[-1]}) is compiled at first use and misses newer "
            "instructions"
        )
        return _found(subject, FindingVerdict.WARNING, why, Layer.FRAMEWORK)
    why = f"{stack.framework} carries {listed}: nothing that runs on capability {capability}; install a build that does"
    return _found(subject, FindingVerdict.BROKEN, why, Layer.FRAMEWORK)


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


def _driver_and_devices(stack: CudaStack) -> list[CompatibilityFinding]:
    own = parse_version(stack.driver_cuda)
    if own is None:
        return []
    findings = []
    for capability in sorted(set(stack.capabilities)):
        first = FIRST_TOOLKIT.get(parse_version(capability) or ())
        if first and own[:2] < first:
            why = (
                f"driver {stack.driver} (CUDA {stack.driver_cuda}) is older than the first release for capability "
                f"{capability}, CUDA {first[0]}.{first[1]}"
            )
            findings.append(_found("driver x device", FindingVerdict.BROKEN, why, Layer.SYSTEM))
        else:
            why = f"driver {stack.driver} (CUDA {stack.driver_cuda}) knows capability {capability}"
            findings.append(_found("driver x device", FindingVerdict.OK, why, Layer.SYSTEM))
    return findings


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
