"""A verdict on a server in words: the limit, the figures it rests on, the model of its gain, and what was not seen."""

import math

from lynxbench.attribute.judge.served_limits import ServedFigures
from lynxbench.attribute.judge.server_verdict import ServerVerdict
from lynxbench.attribute.tile.served_series import ServedSeries

ASKED = {
    "running": "requests in the batch",
    "waiting": "requests that wait",
    "cache_share": "the key-value cache in use",
    "preemptions": "requests put out of the batch",
    "iterations": "steps",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
}
"""What a verdict asks of a server's metrics."""


def server_sentence(verdict: ServerVerdict) -> str:
    """The verdict without its bound: what is at its limit, and what is level with it."""
    if verdict.lead is None:
        return verdict.judgement.reason
    text = verdict.lead.says
    for limit in verdict.level:
        text += f"; level with it: {limit.says}"
    return text


def server_evidence(figures: ServedFigures, verdict: ServerVerdict) -> tuple[str, ...]:
    """The figures of a server's series, its threads and its device."""
    series = figures.series
    lines = [*_series(series), *_speculation(series), *_step(figures), *_threads(series)]
    for limit in (*((verdict.lead,) if verdict.lead else ()), *verdict.level):
        lines.append(f"gain of the next step ({limit.cause.name}): {limit.model}")
    for limit in verdict.others:
        lines.append(f"also seen, gaining less: {limit.says}")
    missing = [words for name, words in ASKED.items() if name not in series.gauges and name not in series.grown]
    if missing:
        lines.append(f"not exposed by the server: {', '.join(missing)}")
    if figures.activity is None:
        lines.append("no counters of the server's device were read: whether it waited or worked is not known")
    return tuple(lines)


def _series(series: ServedSeries) -> list[str]:
    lines = []
    if "running" in series.gauges or "waiting" in series.gauges:
        parts = [f"{series.looks} looks in {series.seconds:.1f} s"]
        for name, words in (("running", "in the batch"), ("waiting", "waiting")):
            if len(series.gauges.get(name, ())):
                values = series.gauges[name]
                parts.append(f"{values.mean():.1f} {words} ({values.min():.0f} to {values.max():.0f})")
        if len(series.gauges.get("cache_share", ())):
            parts.append(f"key-value cache {series.level('cache_share'):.0%} used")
        if "preemptions" in series.grown:
            parts.append(f"{series.grown['preemptions']:.0f} put out again")
        lines.append("the server's own series: " + ", ".join(parts))
    rates = [
        f"{series.per_s(name):.4g} {words} a second"
        for name, words in (("prompt_tokens", "prompt tokens"), ("output_tokens", "output tokens"))
        if name in series.grown
    ]
    return [*lines, *([f"the server counted {' and '.join(rates)}"] if rates else [])]


def _speculation(series: ServedSeries) -> list[str]:
    drafts, drafted = series.grown.get("drafts", 0.0), series.grown.get("draft_tokens", 0.0)
    if drafts > 0 and drafted > 0:
        accepted = series.grown.get("accepted_tokens", 0.0)
        return [f"speculation: {accepted / drafted:.1%} of drafts accepted, {1 + accepted / drafts:.2f} tokens a step"]
    return []


def _step(figures: ServedFigures) -> list[str]:
    """A step divided: what its memory traffic takes at the least, other kernels, and the device's waits."""
    activity, series = figures.activity, figures.series
    if activity is None:
        return []
    units = {
        "engine": activity.engine,
        "SM": activity.sm,
        "tensor": activity.tensor,
        "fp32 pipe": activity.fp32,
        "DRAM": activity.dram,
    }
    shown = ", ".join(f"{name} {share:.0%}" for name, share in units.items() if share is not None)
    lines = [f"the device while counted ({activity.source}, {activity.samples} readings): {shown}"]
    steps_per_s = series.per_s("iterations")
    if steps_per_s > 0 and activity.dram is not None and not math.isnan(figures.busy):
        step_ms = 1e3 / steps_per_s
        floor, waits = min(activity.dram, figures.busy), figures.idle
        lines.append(
            f"a step takes {step_ms:.3g} ms: {floor * step_ms:.3g} ms would move its bytes at the memory's most, "
            f"{(figures.busy - floor) * step_ms:.3g} ms more its kernels take, {waits * step_ms:.3g} ms it waits"
        )
    return lines


def _threads(series: ServedSeries) -> list[str]:
    thread = series.busiest
    if thread is None:
        return []
    cores = sum(process.cores for process in series.threads)
    waited = "" if math.isnan(thread.waited) else f", and was ready without one for {thread.waited:.0%}"
    return [
        f"the server's {len(series.threads)} processes use {cores:.2f} cores; the busiest thread ({thread.name}) runs "
        f"{thread.busiest:.0%} of a core{waited}"
    ]
