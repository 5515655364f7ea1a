"""A contract fitted to a log is like a later one of the same production, and unlike one that drifted."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from lynxbench.model.workload import Workload
from lynxbench.workload.production import fit_log
from lynxbench.workload.representative import Likeness, Representativeness, distance
from lynxbench.workload.request_log import RequestLog


def production(
    seed: int,
    count: int = 1500,
    prompt: float = 300.0,
    answer: float = 150.0,
    rate: float = 5.0,
    variation: float = 1.0,
    together: float = 0.0,
) -> RequestLog:
    """Lognormal prompts and answers (`together` correlates them), gamma arrivals."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, count))
    b = together * a + np.sqrt(1 - together**2) * b
    inputs = np.clip(np.round(prompt * np.exp(0.8 * a)), 1, 8192).astype(np.int64)
    outputs = np.clip(np.round(answer * np.exp(0.6 * b)), 1, 8192).astype(np.int64)
    arrival = np.cumsum(rng.gamma(1 / variation**2, variation**2 / rate, count))
    return RequestLog("log", arrival - arrival[0], inputs, outputs, rng.exponential(2.0, count), None, 0)


def workload(keys: dict[str, object]) -> Workload:
    model = {"source": "served", "name": "m"}
    return Workload.model_validate_json(
        json.dumps({"task": "generate", "model": model, "precisions": ["bf16"], **keys})
    )


def fitted(log: RequestLog) -> Workload:
    return workload(fit_log(log).workload_keys())


def verdict(found: Representativeness, name: str) -> Likeness:
    return next(dimension.verdict for dimension in found.dimensions if dimension.name == name)


@pytest.mark.slow
def test_an_undrifted_log_is_called_like_production() -> None:
    found = [distance(fitted(production(seed)), production(1000 + seed)) for seed in range(40)]
    assert sum(each.verdict is Likeness.DIFFERS for each in found) <= 1
    assert sum(each.verdict is Likeness.LIKE for each in found) >= 38


@pytest.mark.parametrize(
    ("drift", "dimension"),
    [
        ({"prompt": 420.0}, "input lengths"),
        ({"answer": 220.0}, "output lengths"),
        ({"rate": 8.0}, "rate"),
        ({"variation": 1.8}, "burstiness"),
        ({"together": 0.6}, "length correlation"),
        ({"together": 0.8}, "mix"),
    ],
)
def test_a_drifted_log_is_called_different(drift: dict[str, float], dimension: str) -> None:
    contract = fitted(production(1))
    found = [distance(contract, production(50 + seed, **drift)) for seed in range(4)]  # type: ignore[arg-type]
    assert all(each.verdict is Likeness.DIFFERS for each in found)
    assert all(verdict(each, dimension) is Likeness.DIFFERS for each in found)
    assert all(dimension in each.sentence() for each in found)


def test_few_requests_say_so_instead_of_agreeing() -> None:
    found = distance(fitted(production(1)), production(2, count=60))
    assert found.verdict is Likeness.TOO_FEW
    assert "too few requests for" in found.sentence()


def test_a_closed_loop_is_held_against_the_concurrency_of_the_log() -> None:
    keys = {**fit_log(production(1)).workload_keys(), "arrival": {"process": "closed", "concurrency": 10}}
    alike, apart = workload(keys), workload({**keys, "arrival": {"process": "closed", "concurrency": 64}})
    assert verdict(distance(alike, production(2)), "concurrency") is Likeness.LIKE  # 5 /s × 2 s
    assert verdict(distance(apart, production(2)), "concurrency") is Likeness.DIFFERS
    assert verdict(distance(alike, production(2)), "burstiness") is Likeness.NOT_RECORDED


@pytest.mark.parametrize(
    ("arrival", "burstiness", "rate"),
    [
        ({"process": "constant", "rate": "5 /s"}, Likeness.DIFFERS, Likeness.LIKE),
        ({"process": "bursts", "rate": "5 /s", "size": 8}, Likeness.DIFFERS, Likeness.LIKE),
        ({"process": "ramp", "from": "0 /s", "to": "10 /s"}, Likeness.LIKE, Likeness.LIKE),
        ({"process": "saturating"}, Likeness.LIKE, Likeness.NOT_RECORDED),
        ({"process": "replay", "path": "trace.jsonl"}, Likeness.NOT_RECORDED, Likeness.NOT_RECORDED),
    ],
)
def test_every_arrival_process_has_an_answer(arrival: dict[str, object], burstiness: Likeness, rate: Likeness) -> None:
    found = distance(workload({**fit_log(production(1)).workload_keys(), "arrival": arrival}), production(2))
    assert verdict(found, "burstiness") is burstiness
    assert verdict(found, "rate") is rate


def test_a_log_without_answers_judges_what_it_has() -> None:
    whole = production(2)
    log = RequestLog("log", whole.arrival_s, whole.input_tokens, None, None, None, 0)
    found = distance(fitted(production(1)), log)
    assert verdict(found, "output lengths") is Likeness.NOT_RECORDED
    assert found.verdict is Likeness.LIKE


def test_the_same_log_gives_the_same_answer_as_plain_json() -> None:
    contract, log = fitted(production(1)), production(2)
    document = distance(contract, log).document()
    assert document == distance(contract, log).document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    lines = distance(contract, log).render().splitlines()
    assert len(lines) == 1 + len(distance(contract, log).dimensions)


def arrived(seed: int, times: np.ndarray, session: np.ndarray | None = None) -> RequestLog:
    """Arrivals of one's own under the usual lengths."""
    log = production(seed, count=len(times))
    return RequestLog("log", times - times[0], log.input_tokens, log.output_tokens, log.duration_s, session, 0)


def thinned(seed: int, span_s: float, peak: float, rate_at: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, span_s, rng.poisson(peak * span_s)))
    return times[rng.random(len(times)) * peak < rate_at(times)]


def against_poisson(log: RequestLog) -> Representativeness:
    rate = (len(log) - 1) / log.span_s
    arrival = {"process": "poisson", "rate": f"{rate:.6g} /s"}
    return distance(workload({**fit_log(log).workload_keys(), "arrival": arrival}), log)


@pytest.mark.parametrize("seed", range(3))
def test_bursts_of_ten_seconds_are_told_from_a_poisson_stream_of_the_same_mean(seed: int) -> None:
    bursts = thinned(seed, 1200.0, 40.0, lambda t: np.where(t % 100 < 10, 40.0, 4.0))
    found = against_poisson(arrived(seed, bursts))
    assert found.verdict is Likeness.DIFFERS
    assert verdict(found, "dispersion 4 s") is Likeness.DIFFERS
    assert verdict(found, "dispersion 16 s") is Likeness.DIFFERS
    assert "dispersion 16 s" in found.sentence()
    even = against_poisson(arrived(seed, thinned(seed, 1200.0, 7.6, lambda t: np.full(len(t), 7.6))))
    assert even.verdict is Likeness.LIKE


def test_a_scale_that_the_log_is_too_short_for_is_not_shown_and_not_agreed() -> None:
    found = distance(fitted(production(1)), production(2))  # five minutes
    shown = {d.name: d.verdict for d in found.dimensions if d.name.startswith(("dispersion", "daily"))}
    assert shown["dispersion 1 s"] is shown["dispersion 4 s"] is Likeness.LIKE
    assert {shown[f"dispersion {s} s"] for s in (64, 256, 1024, 4096)} == {Likeness.NOT_SHOWN}
    assert shown["daily shape"] is Likeness.NOT_SHOWN
    assert "not shown: dispersion 16 s" in found.sentence()
    assert found.verdict is Likeness.LIKE


def test_a_day_with_a_peak_is_told_from_a_flat_one() -> None:
    day = 86_400.0
    swing = thinned(5, 2 * day, 0.2, lambda t: 0.1 * (1 + 0.6 * np.sin(2 * np.pi * t / day)))
    assert verdict(against_poisson(arrived(5, swing)), "daily shape") is Likeness.DIFFERS
    flat = against_poisson(arrived(6, thinned(6, 2 * day, 0.1, lambda t: np.full(len(t), 0.1))))
    assert verdict(flat, "daily shape") is Likeness.LIKE
    assert flat.verdict is Likeness.LIKE


def test_sessions_are_held_against_the_turns_of_a_conversation() -> None:
    log = production(2)
    alone = RequestLog("log", log.arrival_s, log.input_tokens, log.output_tokens, None, np.arange(len(log)), 0)
    assert verdict(distance(fitted(production(1)), alone), "sessions") is Likeness.LIKE
    fours = RequestLog("log", log.arrival_s, log.input_tokens, log.output_tokens, None, np.arange(len(log)) // 4, 0)
    assert verdict(distance(fitted(production(1)), fours), "sessions") is Likeness.DIFFERS
    asked = distance(fitted(production(1)), fours, turns=4)
    assert verdict(asked, "sessions") is Likeness.LIKE
    assert verdict(asked, "think time") is Likeness.NOT_RECORDED
    assert verdict(asked, "rate") is Likeness.DIFFERS  # four times as many as conversations open
    unnamed = distance(fitted(production(1)), log)
    assert verdict(unnamed, "sessions") is Likeness.NOT_RECORDED


def test_pauses_between_an_answer_and_the_next_request_are_held_against_the_think_time() -> None:
    rng = np.random.default_rng(3)
    opens = np.sort(rng.uniform(0, 3600, 600))
    pauses = np.exp(rng.normal(np.log(8.0), 0.4, 600))
    times = np.concatenate((opens, opens + 2.0 + pauses))
    order = np.argsort(times, kind="stable")
    session = np.tile(np.arange(600), 2)[order]
    log = arrived(3, times[order], session)
    log = RequestLog("log", log.arrival_s, log.input_tokens, log.output_tokens, np.full(1200, 2.0), session, 0)
    for think_s, likeness in ((8.0, Likeness.LIKE), (1.0, Likeness.DIFFERS), (60.0, Likeness.DIFFERS)):
        found = distance(fitted(log), log, turns=2, think_s=think_s)
        assert verdict(found, "think time") is likeness


def test_coarse_stamps_show_nothing_below_their_step() -> None:
    log = production(2, count=6000)
    minutes = arrived(2, np.floor(log.arrival_s / 10) * 10)
    found = distance(fitted(production(1)), minutes)
    assert verdict(found, "dispersion 1 s") is verdict(found, "dispersion 16 s") is Likeness.NOT_SHOWN
    assert found.verdict is not Likeness.DIFFERS


def test_figures_of_a_check_are_those_that_people_read() -> None:
    """Found: `chance inf`, `rank correlation -0.00`, `at 2.05e+09 /s`, `over 0 s`."""
    two = production(seed=1, count=2)
    shown = distance(fitted(two), two).render()
    assert "inf" not in shown
    assert "chance unknown" in shown
    for rate in (2e9, 2e-5, 4000.0):
        arrivals = np.arange(50) / rate
        lengths = np.arange(50, dtype=np.int64) + 10
        told = fit_log(RequestLog("log", arrivals, lengths, None, None, None, 0)).remarks()[0]
        assert "e+" not in told
        assert "e-" not in told
        assert "over 0 s" not in told
