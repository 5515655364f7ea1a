"""Which number formats a device computes natively, which it emulates, which it lacks, and why. Pure.

A table says what the hardware can do; which kernels ran is decided by the run. Sources: tensor-core input types by
compute capability (CUDA C++ Programming Guide, PTX ISA), Intel AMX/AVX-512 and Arm architecture manuals for CPU flags.
"""

from collections.abc import Iterable

from lynxbench.executor.compatibility import Version, parse_version
from lynxbench.executor.host import KNOWN
from lynxbench.model.document import Document
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision

FORMATS: tuple[str, ...] = ("fp64", *(precision.value for precision in Precision), "int4", "fp6", "fp4")

STORED_BITS = {
    "int8-weight-only": 8,
    "fp8-weight-only": 8,
    "int4-weight-only": 4,
    "int6-weight-only": 6,
    "int5-weight-only": 5,
}
"""Weights stored narrower than anything is computed in."""
BLOCK_SCALED = {"mxfp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}
"""Elements whose matrix units take a scale per block (PTX ISA, mma with block scaling: sm_100 and later)."""
TENSOR_CORE_INPUTS: dict[Version, frozenset[str]] = {
    tuple(map(int, capability.split("."))): frozenset(inputs) for capability, inputs in KNOWN["tensor_cores"].items()
}


class PrecisionSupport(Document):
    """One format on one device."""

    device: str
    precision: str
    native: Native
    reason: str


def gpu_precision(capability: str, precision: str) -> tuple[Native, str]:
    """How a device of that compute capability executes a format."""
    version = parse_version(capability)
    if version is None or version < (5, 0):
        return Native.UNKNOWN, f"capability {capability} is not in the table"
    inputs = _tensor_inputs(version)
    if inputs is None:
        return Native.UNKNOWN, f"capability {capability} is newer than the table"
    if precision == "fp8-block" and "fp8" in inputs:
        return Native.NATIVE, f"fp8 inputs of capability {capability}, scaled block by block after each product"
    if precision in inputs:
        return Native.NATIVE, f"tensor cores of capability {capability} take {precision}"
    if precision in BLOCK_SCALED and version >= (10, 0) and BLOCK_SCALED[precision] in inputs:
        return Native.NATIVE, f"{BLOCK_SCALED[precision]} inputs with a scale per block, from capability 10.0"
    if precision in STORED_BITS:
        wide = "bf16 or fp16" if "bf16" in inputs else "fp16" if "fp16" in inputs else "fp32"
        return Native.NATIVE, f"stored in {STORED_BITS[precision]} bits, computed natively in {wide}"
    if precision in ("fp32", "fp64"):
        return Native.NATIVE, f"plain {precision} units, no tensor cores"
    if precision == "fp16" and version >= (5, 3):
        slow = ", at 1/64 of the fp32 rate" if version == (6, 1) else ""
        return Native.NATIVE, f"half-precision arithmetic without tensor cores{slow}"
    if precision == "int8" and version >= (6, 1) and version != (6, 2):
        return Native.NATIVE, "four-way dot product (dp4a) without tensor cores"
    if precision in ("bf16", "fp16"):
        return (
            Native.EMULATED,
            f"no {precision} arithmetic at capability {capability}: converted to fp32 around each product",
        )
    if precision == "tf32":
        return Native.UNSUPPORTED, f"tf32 begins with capability 8.0; {capability} computes plain fp32 instead"
    return Native.UNSUPPORTED, f"no {precision} inputs at capability {capability}; it can only be stored and widened"


AMD_INPUTS: dict[str, frozenset[str]] = {arch: frozenset(kinds) for arch, kinds in KNOWN["amd_matrix_inputs"].items()}
UNTESTED_TABLE = "by AMD's documents, untested on the real chip"


def amd_precision(arch: str, precision: str) -> tuple[Native, str]:
    """How a device of that architecture (gfx942) executes a format, by AMD's documents alone."""
    known = AMD_INPUTS.get(arch.partition(":")[0])
    if known is None:
        return Native.UNKNOWN, f"architecture {arch} is not in the table"
    if precision in known:
        kind = (
            " (of the FNUZ kind, which is not the OCP one)" if arch.startswith("gfx942") and "fp8" in precision else ""
        )
        return Native.NATIVE, f"matrix units of {arch} take {precision}{kind}; {UNTESTED_TABLE}"
    if precision in ("fp32", "fp64"):
        return Native.NATIVE, f"plain {precision} units, no matrix units; {UNTESTED_TABLE}"
    # What is stored narrower, scaled by block or converted depends on kernels that nobody here has seen run.
    return Native.UNKNOWN, f"{precision} is none of the inputs of {arch}'s matrix units; {UNTESTED_TABLE}"


def _tensor_inputs(version: Version) -> frozenset[str] | None:
    if version < (7, 0):
        return frozenset()
    if version in TENSOR_CORE_INPUTS:
        return TENSOR_CORE_INPUTS[version]
    # Within a major capability a later minor keeps the instructions of an earlier one.
    kin = [known for known in TENSOR_CORE_INPUTS if known[0] == version[0] and known <= version]
    return TENSOR_CORE_INPUTS[max(kin)] if kin else None


def cpu_precision(flags: Iterable[str], precision: str) -> tuple[Native, str]:
    """How a CPU with those flags executes a format."""
    known = frozenset(flags)
    if not known:
        return Native.UNKNOWN, "the CPU's flags could not be read"
    arm = "asimd" in known
    if precision in ("fp32", "fp64"):
        wide = "SVE" if "sve" in known else "Neon" if arm else _x86_width(known)
        return Native.NATIVE, f"{wide} arithmetic"
    if precision in STORED_BITS:
        return Native.NATIVE, f"stored in {STORED_BITS[precision]} bits, computed natively in fp32"
    kind = "arm" if arm else "x86"
    for flag, words in KNOWN[f"{kind}_native"].get(precision, {}).items():
        if flag in known:
            return Native.NATIVE, f"{flag}: {words}"
    if precision == "fp16" and not arm:
        convert = "f16c converts only" if "f16c" in known else "not even conversions (f16c)"
        return Native.EMULATED, f"neither amx_fp16 nor avx512_fp16; {convert}: computed in fp32"
    if missing := KNOWN[f"{kind}_missing"].get(precision):
        return Native.EMULATED, missing
    return Native.UNSUPPORTED, f"no {precision} arithmetic on this CPU"


def _x86_width(flags: frozenset[str]) -> str:
    return next(
        (name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX")) if flag in flags), "SSE"
    )


def precision_table(executor: Executor) -> tuple[PrecisionSupport, ...]:
    """Every format on the CPU and on each kind of GPU that the executor holds."""
    flags = executor.get(Layer.ACCELERATOR, "cpu_flags")
    model = executor.get(Layer.ACCELERATOR, "cpu_model")
    known = [str(flag) for flag in flags] if isinstance(flags, list) else []
    judged = [(f"cpu {model or 'of unknown model'}", p, cpu_precision(known, p)) for p in FORMATS]
    for device, capability in _gpu_kinds(executor):
        judged += [(device, p, gpu_precision(capability, p)) for p in FORMATS]
    architectures = executor.get(Layer.ACCELERATOR, "amd_gpu_arch")
    for arch in sorted({str(arch) for arch in architectures if arch} if isinstance(architectures, list) else ()):
        judged += [(f"amd gpu ({arch})", p, amd_precision(arch, p)) for p in FORMATS]
    return tuple(
        PrecisionSupport(device=device, precision=p, native=native, reason=reason)
        for device, p, (native, reason) in judged
    )


def _gpu_kinds(executor: Executor) -> list[tuple[str, str]]:
    capabilities = executor.get(Layer.ACCELERATOR, "gpu_capability")
    names = executor.get(Layer.ACCELERATOR, "gpu_name")
    if not isinstance(capabilities, list):
        return []
    called = names if isinstance(names, list) and len(names) == len(capabilities) else ["gpu"] * len(capabilities)
    kinds = {
        f"{name or 'gpu'} ({capability})": str(capability)
        for name, capability in zip(called, capabilities, strict=True)
        if capability
    }
    return list(kinds.items())
