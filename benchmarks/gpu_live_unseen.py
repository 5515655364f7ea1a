"""Cases of gpu_live.py that no rule was made for, with the answers that an expert would give; the most diverse first.

Written without a look at the code of the rules, though with their description in docs/methodology/attribution.md. Two
answers are accepted only where both lead the one who reads them to the fix. In `experts`, `lastly`, `cumulated` and
partly `touched` every kernel does well what it was asked for, and only who knows the purpose sees that most of it is
in vain: a trace alone can hardly say so, but it must not say that hardware is to blame.
"""

from __future__ import annotations

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live


def _healthy(module: str, bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return Live(f"gpu_live_unseen_{module}", bottlenecks, ("accelerator",), "hardware", precision)


def _kernels(bottlenecks: tuple[str, ...], *layers: str) -> Live:
    return Live("gpu_live_unseen_kernels", bottlenecks, layers)


def _models(bottlenecks: tuple[str, ...], *layers: str, precision: str = "bf16") -> Live:
    return Live("gpu_live_unseen_models", bottlenecks, layers, precision=precision)


def _waits(*bottlenecks: str, layers: tuple[str, ...] = ("application",)) -> Live:
    return Live("gpu_live_unseen_waits", bottlenecks, layers)


LAUNCH, ROUTE = ("launch",), ("launch", "synchronization")
UNSEEN: dict[str, Live] = {
    "topped": _kernels(KERNELS, "application", "runtime"),
    "polled": _waits("idle", "synchronization"),
    "convolved": _healthy("kernels", COMPUTE),
    "rotary": _kernels(MEMORY, "runtime", "application"),
    "recurrent": _models(LAUNCH, "runtime", "application"),
    "sampled": _waits("synchronization"),
    "padded": _models(KERNELS, "application", "runtime"),
    "loaded": _waits("input", "idle"),
    "replayed": _healthy("kernels", COMPUTE),
    "dequantised": _kernels(MEMORY, "application", "runtime"),
    "hogged": _waits("idle", "input", "launch"),
    "experts": _models(COMPUTE, "application"),
    "offloaded": _waits("transfer"),
    "entropy": _kernels(MEMORY, "application", "runtime"),
    "updated": _healthy("kernels", MEMORY, "fp32"),
    "activated": _kernels(KERNELS, "runtime", "application"),
    "routed": _models(ROUTE, "application", "runtime"),
    "touched": _kernels(MEMORY, "application"),
    "answered": _waits("idle", "input"),
    "lastly": _kernels(COMPUTE, "application"),
    "crumbs": _waits("transfer", "launch", "synchronization", layers=("application", "runtime")),
    "expanded": _kernels(MEMORY, "application", "runtime"),
    "converged": _waits("synchronization"),
    "flashed": _healthy("kernels", COMPUTE),
    "unfolded": _kernels(KERNELS, "application", "runtime"),
    "averaged": _models(LAUNCH, "runtime", "application"),
    "reordered": _kernels(MEMORY, "application"),
    "saved": _waits("transfer", "idle"),
    "normed": _healthy("kernels", MEMORY),
    "spectral": _models(KERNELS, "application", "runtime", precision="fp32"),
    "adapters": _models(LAUNCH, "runtime", "application"),
    "cumulated": _kernels(COMPUTE, "application"),
    "alerted": _waits("synchronization"),
    "careless": _models(COMPUTE, "application", "runtime"),
    "batched": _healthy("models", COMPUTE),
}
