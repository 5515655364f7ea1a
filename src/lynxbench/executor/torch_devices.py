"""Devices that PyTorch names xpu (Intel), mps (Apple) and xla (Google), in a process that has them in use.

Nothing is initialised for it, and a process without them gets no field. Untested on the real chip, and so says the
record.
"""

from typing import Any

from lynxbench.executor.host import exact_json, explain
from lynxbench.executor.vendors import UNTESTED
from lynxbench.model.executor import Field, Tier, measured, unreadable

XPU_PROPERTIES = (
    *("name", "platform_name", "driver_version", "total_memory", "max_compute_units", "gpu_eu_count"),
    *("has_fp16", "has_fp64", "has_subgroup_matrix_multiply_accumulate"),
    "has_subgroup_matrix_multiply_accumulate_tensor_float32",
)
"""Of torch.xpu.get_device_properties."""


def describe_other_devices(torch: Any, xla: Any = None) -> dict[str, Field]:
    """The fields of those that are in use; none where this process uses none of them."""
    fields: dict[str, Field] = {}
    if _is_true(torch, "xpu.is_initialized()"):
        fields |= _xpu(torch)
    if _is_true(torch, "backends.mps.is_available()") and _is_true(torch, "mps.driver_allocated_memory()"):
        fields |= _mps(torch)
    if xla is not None:
        fields |= _xla(xla)
    return fields


def _xpu(torch: Any) -> dict[str, Field]:
    source = "torch.xpu, in this process"
    fields = {"xpu_count": _field(torch, "xpu.device_count()", source), "xpu_probe": _untested(source)}
    try:
        count = int(torch.xpu.device_count())
        devices = [torch.xpu.get_device_properties(index) for index in range(count)]
    except Exception as problem:
        return fields | {"xpu_name": unreadable(f"torch.xpu: {explain(problem)}")}
    for name in XPU_PROPERTIES:
        # An older torch has fewer of them.
        lacking = [index for index, device in enumerate(devices) if not hasattr(device, name)]
        if lacking:
            fields[f"xpu_{name}"] = unreadable(f"torch.xpu: this version has no {name}")
        else:
            values = [exact_json(getattr(device, name)) for device in devices]
            fields[f"xpu_{name}"] = measured(values, source)
    return fields


def _mps(torch: Any) -> dict[str, Field]:
    source = "torch.mps, in this process"
    return {
        "mps_recommended_memory_bytes": _field(torch, "mps.recommended_max_memory()", source),
        "mps_allocated_bytes": _field(torch, "mps.driver_allocated_memory()", source, Tier.STATE),
        "mps_probe": _untested(source),
    }


def _xla(xla: Any) -> dict[str, Field]:
    source = "torch_xla, in this process"
    return {
        "xla_device_type": _field(xla, "runtime.device_type()", source),
        "xla_devices": _field(xla, "runtime.global_runtime_device_count()", source),
        "xla_version": _field(xla, "__version__", source),
        "xla_probe": _untested(source),
    }


def _untested(source: str) -> Field:
    return measured(UNTESTED, source, Tier.STATE)


def _follow(module: Any, path: str) -> Any:
    """The value at a dotted path of attributes and calls."""
    value = module
    for part in path.split("."):
        value = getattr(value, part.removesuffix("()"))
        value = value() if part.endswith("()") else value
    return value


def _field(module: Any, path: str, source: str, tier: Tier = Tier.CONFIGURATION) -> Field:
    try:
        value = _follow(module, path)
    except Exception as problem:
        return unreadable(f"{source}: {explain(problem)}", tier)
    if value is None:
        return unreadable(f"{source}: no answer", tier)
    return measured(exact_json(value), source, tier)


def _is_true(module: Any, path: str) -> bool:
    try:
        return bool(_follow(module, path))
    except Exception:  # not in this version, or not on this machine
        return False
