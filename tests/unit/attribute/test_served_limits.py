"""What bounds a server, on series whose truth is known; the adversarial ones look like a limit and are none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from lynxbench.attribute.judge.served_limits import CAUSES, DeviceCondition, ServedFigures
from lynxbench.attribute.judge.server_verdict import ServerVerdict, judge_server
from lynxbench.attribute.say.server_lines import server_evidence, server_sentence
from lynxbench.attribute.tile.client_view import ClientView
from lynxbench.attribute.tile.served_series import tile_series
from lynxbench.model.activity import DeviceActivity
from lynxbench.model.attribution import Bound
from lynxbench.model.layers import Layer
from lynxbench.model.samples import Telemetry

LOOKS = 25
WHOLE = (0, 12_500_000_000)
CHAT = ClientView(
    requests=500,
    latency_s=1.0,
    first_token_s=0.1,
    between_s=0.01,
    prompt_tokens=256.0,
    output_tokens=64.0,
    still=0.02,
    long_share=0.0,
    long_tokens=0.0,
    short_first_s=math.nan,
    undisturbed_first_s=0.1,
)


def column(value: float | Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.full(LOOKS, value) if isinstance(value, int | float) else np.array(value, dtype=np.float64)


def counter(per_s: float) -> list[float]:
    return [1000.0 + per_s * 0.5 * look for look in range(LOOKS)]


def watched(server: str = "vllm", **columns: float | Sequence[float]) -> Telemetry:
    """Looks twice a second; quantities of the server by name, all others as they are."""
    at_ns = np.arange(LOOKS, dtype=np.int64) * 500_000_000
    named = {name if name.startswith("process_") else f"{server}_{name}": column(v) for name, v in columns.items()}
    return Telemetry(at_ns, named)


def device(**units: float) -> DeviceActivity:
    return DeviceActivity(device="gpu0", samples=100, source="NVML GPM", **units)


def threads(busiest: float, waited: float = 0.0, allowed: int = 16, name: str = "VLLM-EngineCor") -> dict[str, float]:
    lead = f"process_7_{name}"
    return {
        f"{lead}_cores": busiest + 0.1,
        f"{lead}_busiest": busiest,
        f"{lead}_waited": waited,
        f"{lead}_allowed": float(allowed),
    }


HEALTHY_DEVICE = device(engine=0.97, sm=0.8, tensor=0.1, fp32=0.02, dram=0.72)
QUEUE: dict[str, float | Sequence[float]] = {
    "running": 4.0,
    "waiting": 60.0,
    "cache_share": 0.02,
    "preemptions": counter(0.0),
    "iterations": counter(200.0),
    "prompt_tokens": counter(3000.0),
    "output_tokens": counter(800.0),
}


def judged(
    columns: Mapping[str, float | Sequence[float]],
    *,
    activity: DeviceActivity | None = HEALTHY_DEVICE,
    arguments: Mapping[str, str] | None = None,
    load: ClientView = CHAT,
    conditions: tuple[DeviceCondition, ...] = (),
    server: str = "vllm",
    network: float = 0.0,
) -> tuple[ServerVerdict, ServedFigures]:
    series = tile_series(watched(server, **columns), [WHOLE])
    figures = ServedFigures(series, load, arguments or {}, activity, conditions, network)
    return judge_server(figures, None), figures


def named(verdict: ServerVerdict) -> str:
    return verdict.lead.cause.name if verdict.lead is not None else ""


# --- planted limits ---------------------------------------------------------------------------------------------------


def test_a_full_batch_with_room_in_the_cache_is_the_batch_limit() -> None:
    verdict, figures = judged(QUEUE, arguments={"max-num-seqs": "4"})
    assert named(verdict) == "sequences"
    assert (verdict.judgement.bound, verdict.judgement.layer) == (Bound.SOFTWARE, Layer.SERVING)
    assert "--max-num-seqs" in verdict.judgement.next_step
    assert not verdict.judgement.weak
    assert "--max-num-seqs 4" in server_sentence(verdict)
    gain = verdict.judgement.gain
    assert 1.0 < gain.low <= gain.estimate <= gain.high <= 16.0
    assert server_evidence(figures, verdict)


def test_the_limit_that_was_not_seen_is_named_weakly() -> None:
    verdict, _ = judged(QUEUE)
    assert named(verdict) == "sequences"
    assert verdict.judgement.weak


def test_a_full_cache_is_the_cache() -> None:
    verdict, _ = judged({**QUEUE, "running": 6.0, "cache_share": 0.93, "preemptions": counter(0.4)})
    assert named(verdict) == "cache"
    assert "--gpu-memory-utilization" in verdict.judgement.next_step


def test_steps_full_of_tokens_are_the_chunk() -> None:
    columns = {
        **QUEUE,
        "running": 28.0,
        "waiting": 36.0,
        "cache_share": 0.3,
        "iterations": counter(100.0),
        "prompt_tokens": counter(10_200.0),
        "output_tokens": counter(2_560.0),
    }
    verdict, _ = judged(columns, arguments={"max-num-batched-tokens": "128", "max-num-seqs": "64"})
    assert named(verdict) == "tokens"
    assert "--max-num-batched-tokens" in verdict.judgement.next_step
    assert verdict.judgement.gain.high <= 320 / 127


def test_eager_steps_with_an_idle_device_are_the_launches() -> None:
    idle = device(engine=0.4, sm=0.3, tensor=0.05, dram=0.3)
    columns = {**QUEUE, "running": 8.0, "waiting": 0.0, **threads(0.98)}
    verdict, _ = judged(columns, activity=idle, arguments={"enforce-eager": ""})
    assert named(verdict) == "eager"
    assert "--enforce-eager" in verdict.judgement.next_step
    assert verdict.judgement.gain.estimate == pytest.approx(2.5)


def test_a_busy_front_end_with_an_idle_device_is_the_host() -> None:
    idle = device(engine=0.5, sm=0.4, tensor=0.05, dram=0.3)
    columns = {**QUEUE, "running": 200.0, "waiting": 0.0, **threads(0.99, name="python3")}
    verdict, _ = judged(columns, activity=idle)
    assert named(verdict) == "host"
    assert "--api-server-count" in verdict.judgement.next_step


def test_threads_without_a_cpu_are_the_systems() -> None:
    idle = device(engine=0.25, sm=0.2, tensor=0.05, dram=0.15)
    columns = {**QUEUE, "running": 64.0, "waiting": 0.0, **threads(0.4, waited=0.55, allowed=1)}
    verdict, _ = judged(columns, activity=idle)
    assert named(verdict) == "starved"
    assert verdict.judgement.layer is Layer.SYSTEM
    gain = verdict.judgement.gain
    assert gain.low < 1 / 0.45 + 1e-9
    assert gain.high == pytest.approx(4.0)


def test_rejected_drafts_are_the_speculation() -> None:
    columns = {
        **QUEUE,
        "running": 16.0,
        "waiting": 0.0,
        "drafts": counter(100.0),
        "draft_tokens": counter(500.0),
        "accepted_tokens": counter(5.0),
    }
    verdict, _ = judged(columns)
    assert named(verdict) == "speculation"
    assert "--speculative-config" in verdict.judgement.next_step
    assert "1.05 tokens a step" in server_sentence(verdict)


def test_accepted_drafts_are_no_limit() -> None:
    columns = {
        **QUEUE,
        "running": 16.0,
        "waiting": 0.0,
        "drafts": counter(100.0),
        "draft_tokens": counter(500.0),
        "accepted_tokens": counter(400.0),
    }
    assert named(judged(columns)[0]) == "memory"


def test_full_precision_is_named_by_its_option() -> None:
    wide = device(engine=0.98, sm=0.9, tensor=0.0, fp32=0.5, dram=0.1)
    columns = {**QUEUE, "running": 8.0, "waiting": 0.0}
    verdict, _ = judged(columns, activity=wide, arguments={"dtype": "float32"})
    assert named(verdict) == "wide"
    assert "--dtype" in verdict.judgement.next_step


def test_kernels_that_use_neither_unit_are_slow_and_that_stays_weak() -> None:
    slow = device(engine=0.98, sm=0.9, tensor=0.05, fp32=0.05, dram=0.15)
    verdict, _ = judged({**QUEUE, "running": 8.0, "waiting": 0.0}, activity=slow)
    assert named(verdict) == "slow_kernels"
    assert verdict.judgement.layer is Layer.RUNTIME
    assert verdict.judgement.weak


def test_long_prompts_amid_short_ones_hold_everybody_up() -> None:
    import dataclasses

    mixed = dataclasses.replace(CHAT, still=0.5, long_share=0.06, long_tokens=0.75)
    verdict, _ = judged({**QUEUE, "running": 32.0, "waiting": 0.0}, load=mixed)
    assert named(verdict) == "long_prompts"
    assert "--long-prefill-token-threshold" in verdict.judgement.next_step


@pytest.mark.parametrize("cause", ["neighbour", "clock", "power"])
def test_conditions_of_the_device_come_before_everything(cause: str) -> None:
    condition = DeviceCondition(cause, "python3 (process 9) was active", 2.0)
    verdict, _ = judged(QUEUE, arguments={"max-num-seqs": "4"}, conditions=(condition,))
    assert named(verdict) == cause
    assert verdict.judgement.layer is Layer.SYSTEM
    assert verdict.judgement.gain.high == pytest.approx(2.0)


def test_memory_near_its_most_is_hardware() -> None:
    verdict, _ = judged({**QUEUE, "running": 1.0, "waiting": 0.0})
    assert named(verdict) == "memory"
    assert verdict.judgement.bound is Bound.HARDWARE


def test_a_device_with_nothing_to_do_is_the_loads() -> None:
    idle = device(engine=0.1, sm=0.1, tensor=0.01, dram=0.08)
    verdict, _ = judged({**QUEUE, "running": 0.4, "waiting": 0.0, **threads(0.2)}, activity=idle)
    assert named(verdict) == "demand"
    assert verdict.judgement.bound is Bound.DEMAND


# --- what only looks like a limit -------------------------------------------------------------------------------------


def test_a_plateau_of_the_closed_loop_is_no_batch_limit() -> None:
    verdict, _ = judged({**QUEUE, "running": 64.0, "waiting": 0.0}, arguments={"max-num-seqs": "64"})
    assert named(verdict) == "memory"


def test_a_full_cache_that_nobody_waits_for_is_none() -> None:
    verdict, _ = judged({**QUEUE, "running": 64.0, "waiting": 0.0, "cache_share": 0.99})
    assert named(verdict) == "memory"


def test_a_queue_that_comes_and_goes_is_none() -> None:
    waiting = [3.0 if look % 4 == 0 else 0.0 for look in range(LOOKS)]
    verdict, _ = judged({**QUEUE, "running": 64.0, "waiting": waiting}, arguments={"max-num-seqs": "64"})
    assert named(verdict) == "memory"


def test_a_busy_thread_beside_a_busy_device_is_none() -> None:
    columns = {**QUEUE, "running": 64.0, "waiting": 0.0, **threads(1.0)}
    assert named(judged(columns)[0]) == "memory"


def test_eager_steps_of_a_busy_device_are_none() -> None:
    columns = {**QUEUE, "running": 64.0, "waiting": 0.0, **threads(1.0)}
    assert named(judged(columns, arguments={"enforce-eager": ""})[0]) == "memory"


def test_a_batch_below_its_limit_is_not_full() -> None:
    verdict, _ = judged({**QUEUE, "running": 20.0, "waiting": 5.0}, arguments={"max-num-seqs": "256"})
    assert named(verdict) not in ("sequences", "cache", "tokens")


def test_mostly_long_prompts_are_the_load_itself() -> None:
    import dataclasses

    load = dataclasses.replace(CHAT, still=0.5, long_share=0.4, long_tokens=0.9)
    assert named(judged({**QUEUE, "running": 8.0, "waiting": 0.0}, load=load)[0]) == "memory"


def test_without_counters_of_the_device_nothing_is_its_fault() -> None:
    verdict, figures = judged({**QUEUE, "running": 64.0, "waiting": 0.0, **threads(1.0)}, activity=None)
    assert verdict.judgement.bound is Bound.UNDETERMINED
    assert verdict.judgement.layer is None
    assert any("no counters of the server's device" in line for line in server_evidence(figures, verdict))


def test_a_server_that_says_little_is_not_blamed() -> None:
    verdict, figures = judged({"output_tokens": counter(500.0)}, activity=None)
    assert verdict.judgement.layer is None
    assert any(
        line.startswith("not exposed by the server: requests in the batch")
        for line in server_evidence(figures, verdict)
    )


def test_a_counter_that_went_back_blames_nobody() -> None:
    back = counter(100.0)
    back[12:] = counter(100.0)[: LOOKS - 12]
    verdict, _ = judged({**QUEUE, "iterations": back}, arguments={"max-num-seqs": "4"})
    assert verdict.judgement.bound is Bound.UNDETERMINED
    assert "restarted" in verdict.judgement.reason


def test_too_short_a_series_blames_nobody() -> None:
    series = tile_series(watched(**QUEUE), [(0, 2_000_000_000)])
    figures = ServedFigures(series, CHAT, {"max-num-seqs": "4"}, HEALTHY_DEVICE)
    verdict = judge_server(figures, None)
    assert verdict.judgement.bound is Bound.UNDETERMINED
    assert "too few" in verdict.judgement.reason


def test_looks_outside_the_counted_time_are_not_counted() -> None:
    waiting = [60.0] * 10 + [0.0] * 15
    series = tile_series(watched(**{**QUEUE, "waiting": waiting}), [(5_000_000_000, 12_500_000_000)])
    assert series.level("waiting") == 0.0
    assert series.looks == 15
    assert series.per_s("iterations") == pytest.approx(200.0)


def test_failed_looks_leave_gaps_and_no_growth_over_them() -> None:
    tokens = counter(100.0)
    tokens[5] = math.nan
    series = tile_series(watched(output_tokens=tokens, running=[math.nan] * 3 + [4.0] * 22), [WHOLE])
    assert series.per_s("output_tokens") == pytest.approx(100.0)
    assert series.level("running") == 4.0
    assert not series.restarted


def test_two_limits_that_gain_as_much_are_both_named_and_nobody_alone_is() -> None:
    idle = device(engine=0.5, sm=0.4, tensor=0.05, dram=0.3)
    columns = {
        **QUEUE,
        "running": 16.0,
        "waiting": 0.0,
        "drafts": counter(100.0),
        "draft_tokens": counter(300.0),
        "accepted_tokens": counter(0.0),
        **threads(0.99),
    }
    verdict, _ = judged(columns, activity=idle)
    assert {named(verdict), *(limit.cause.name for limit in verdict.level)} == {"host", "speculation"}
    assert verdict.judgement.weak
    assert "level with it" in server_sentence(verdict)


def test_every_cause_reads_for_every_server() -> None:
    for cause in CAUSES.values():
        for server in ("vllm", "sglang", "tgi", "llamacpp", "triton", "unheard-of"):
            step = cause.step_for(server)
            assert step
            assert "{" not in step
