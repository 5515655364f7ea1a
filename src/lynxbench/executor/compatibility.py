"""CUDA compatibility on four axes: driver, toolkit, framework build, device capability. Pure.

Sources: NVIDIA, "CUDA Compatibility" (minor-version and forward compatibility, driver floors) and "CUDA C++ Programming
Guide" (binary compatibility within a major capability, PTX forward only).
"""

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


OK, WARNING, BROKEN = FindingVerdict.OK, FindingVerdict.WARNING, FindingVerdict.BROKEN
_Judged = tuple[FindingVerdict, str]


def _finding(subject: str, layer: Layer, judged: _Judged) -> CompatibilityFinding:
    """What was found on a pair of axes, and the layer whose owner can change how they fit."""
    verdict, reason = judged
    return CompatibilityFinding(subject=subject, verdict=verdict, reason=reason, layer=layer)


def check_cuda(stack: CudaStack) -> tuple[CompatibilityFinding, ...]:
    """Findings on every pair of axes that both sides are known of."""
    if not stack.capabilities and stack.framework_cuda is None and stack.driver is None:
        nothing = f"no NVIDIA device, no driver, {stack.framework or 'no framework'} without CUDA: nothing to match"
        return (_finding("cuda", Layer.SYSTEM, (OK, nothing)),)
    return (
        *(_finding("driver x CUDA runtime", Layer.SYSTEM, judged) for judged in _driver_and_runtime(stack)),
        *(_finding("toolkit x framework build", Layer.FRAMEWORK, judged) for judged in _toolkit_and_framework(stack)),
        *(_finding("framework build x device", layer, judged) for layer, judged in _framework_and_devices(stack)),
        *(_finding("driver x device", Layer.SYSTEM, judged) for judged in _driver_and_devices(stack)),
    )


def _driver_and_runtime(stack: CudaStack) -> Iterator[_Judged]:
    release = stack.framework_cuda or stack.toolkit
    runtime = parse_version(stack.framework_cuda) or parse_version(stack.toolkit)
    if runtime is None:
        return
    driver, own = parse_version(stack.driver), parse_version(stack.driver_cuda)
    floor = DRIVER_FLOORS.get(runtime[0])
    if driver is None:
        yield WARNING, f"CUDA {release} is installed, but no NVIDIA driver answers: work stays on the CPU"
    elif floor is None:
        yield WARNING, f"no driver floor is known for CUDA {release}"
    elif driver[0] < floor and stack.forward_compatibility:
        yield (
            WARNING,
            f"driver {stack.driver} is below {floor} for CUDA {release}; it rests on the forward-compatibility "
            f"package {stack.forward_compatibility} (data-centre devices only)",
        )
    elif driver[0] < floor:
        needed = f"CUDA {release} needs driver {floor} or newer"
        yield BROKEN, f"{needed}; driver {stack.driver} is installed: update the driver"
    elif own is not None and own[:2] < runtime[:2]:
        yield (
            WARNING,
            f"driver {stack.driver} supports CUDA {stack.driver_cuda}; CUDA {release} runs by minor-version "
            "compatibility: no PTX of it can be compiled at load, and newer features may be missing",
        )
    else:
        yield OK, f"driver {stack.driver} meets the floor {floor} of CUDA {release}"


def _toolkit_and_framework(stack: CudaStack) -> Iterator[_Judged]:
    built, toolkit = parse_version(stack.framework_cuda), parse_version(stack.toolkit)
    if built is None or toolkit is None:
        return
    framework, built_for = stack.framework or "the framework", f"built for CUDA {stack.framework_cuda}"
    if toolkit[0] != built[0]:
        installed = f"the installed toolkit is {stack.toolkit}"
        yield WARNING, f"{framework} was {built_for}, {installed}: extensions built here do not load"
    elif toolkit[:2] < built[:2]:
        installed = f"older libraries {stack.toolkit} are installed"
        yield WARNING, f"{framework} was {built_for}, {installed}: symbols may be missing"
    else:
        yield OK, f"{framework} {built_for}, toolkit {stack.toolkit}"


def _framework_and_devices(stack: CudaStack) -> Iterator[tuple[Layer, _Judged]]:
    built, framework = parse_version(stack.framework_cuda), stack.framework
    own = Layer.FRAMEWORK
    if not stack.capabilities:
        if stack.framework_cuda is not None:
            yield own, (OK, f"{framework} is a CUDA {stack.framework_cuda} build; no device is here to run it")
    elif framework is None:
        yield own, (WARNING, "no framework is installed that could use the devices")
    elif stack.framework_cuda is None:
        without = f"{framework} is built without CUDA"
        yield own, (BROKEN, f"{without}: it cannot use the devices; install a CUDA build")
    elif built is None:
        named = f"{framework} names its CUDA release as {stack.framework_cuda!r}"
        yield own, (WARNING, f"{named}: nothing can be matched")
    else:
        for capability in sorted(set(stack.capabilities)):
            device = parse_version(capability)
            if device is None:
                reason = f"a device names its capability as {capability!r}: nothing can be matched"
                yield Layer.ACCELERATOR, (WARNING, reason)
            elif stack.framework_archs is None:
                yield own, _by_toolkit(stack, built, capability, device)
            else:
                yield own, _by_archs(stack, built, capability, device, stack.framework_archs)


def _by_toolkit(stack: CudaStack, built: Version, capability: str, device: Version) -> _Judged:
    """Without the architecture list only the release can be judged."""
    if device < DROPPED_BELOW.get(built[0], ()):
        return BROKEN, f"CUDA {built[0]} no longer supports capability {capability}"
    first = FIRST_TOOLKIT.get(device)
    if first and built[:2] < first:
        came = f"capability {capability} came with CUDA {first[0]}.{first[1]}"
        return WARNING, f"{came}; {stack.framework} is built for {stack.framework_cuda}: at best PTX compiled at load"
    compiles = f"CUDA {stack.framework_cuda} compiles for capability {capability}"
    return OK, f"{compiles}; the build's own list is known once it is loaded"


def _by_archs(stack: CudaStack, built: Version, capability: str, device: Version, archs: tuple[str, ...]) -> _Judged:
    binary = [arch for arch in archs if _binary_runs(arch, device)]
    if binary:
        return OK, f"{stack.framework} carries {binary[-1]} for capability {capability}"
    portable = [arch for arch in archs if _ptx_runs(arch, device)]
    own = parse_version(stack.driver_cuda)
    if portable and own and own[:2] < built[:2]:
        driver = f"driver {stack.driver} (CUDA {stack.driver_cuda}) cannot compile PTX of CUDA {stack.framework_cuda}"
        return BROKEN, f"only PTX ({portable[-1]}) fits capability {capability}, and {driver}"
    if portable:
        late = f"PTX ({portable[-1]}) is compiled at first use and misses newer instructions"
        return WARNING, f"no binary for capability {capability}; {late}"
    carries = f"{stack.framework} carries {' '.join(archs) or 'none'}"
    return BROKEN, f"{carries}: nothing that runs on capability {capability}; install a build that does"


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


def _driver_and_devices(stack: CudaStack) -> Iterator[_Judged]:
    own = parse_version(stack.driver_cuda)
    if own is None:
        return
    driver = f"driver {stack.driver} (CUDA {stack.driver_cuda})"
    for capability in sorted(set(stack.capabilities)):
        first = FIRST_TOOLKIT.get(parse_version(capability) or ())
        if first and own[:2] < first:
            release = f"the first release for capability {capability}, CUDA {first[0]}.{first[1]}"
            yield BROKEN, f"{driver} is older than {release}"
        else:
            yield OK, f"{driver} knows capability {capability}"


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
