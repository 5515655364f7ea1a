"""Words of agreement and of difference held against known truth: rerun, change, compare, purchase, orders, signs.

What is wanted of every word: it is said where the evidence shows it, it is almost never said where the truth is
another, and in between there is a word for doubt. Each line plants a truth, draws evidence of it with the noise that
restarts have, and counts how often the wrong word (or, on the other side, the right one) comes out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from compared import make_attribution, make_executor, make_precision, make_result
from lynxbench.compare.change_outcomes import judge_expectation
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.instances import compare_instances
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.compare.stack_signals import Record, read_signals
from lynxbench.decide.deciding import Gathered, ask_purchase, read_catalogue
from lynxbench.decide.demonstrating import demo_results
from lynxbench.decide.front import dominates, rank_options
from lynxbench.decide.precision_choice import decide_precisions
from lynxbench.model.comparison import Comparison, EffectVerdict
from lynxbench.model.contract import Regime
from lynxbench.model.entries import ChangeVerdict, RerunVerdict
from lynxbench.model.figures import Figure
from lynxbench.model.fleet import InstanceStanding
from lynxbench.model.history import SignalState
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.planning import MoneyFigure, Option
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, SloOutcome, Validity, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.record.rerunning import judge_ratio, judge_rerun
from lynxbench.stats.intervals import mean_interval, ratio_interval
from planted import OF_EVIDENCE, hardware_bound, signed
from truth_promise import Promise

Rng = np.random.Generator
NOISES = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05)
WRONG = 0.05
"""A wrong word, at most; most lines stay far below it."""
RIGHT = 0.90


def at_most(name: str, words: str, share: float, bound: float = WRONG) -> Promise:
    """A promise that something is rare."""
    return Promise(name, f"{words} in at most {bound:.0%}", share, bound, share <= bound)


def at_least(name: str, words: str, share: float, bound: float = RIGHT) -> Promise:
    """A promise that something is usual."""
    return Promise(name, f"{words} in at least {bound:.0%}", share, bound, share >= bound)


def means(rng: Rng, level: float, noise: float, restarts: int = 5) -> tuple[float, ...]:
    """Run means of fresh processes around a level."""
    return tuple(float(mean) for mean in level * np.exp(rng.normal(0.0, noise, restarts)))


def ratio(rng: Rng, factor: float, noise: float, restarts: int = 5) -> Interval:
    """After over before with its interval, where the truth is the factor."""
    return ratio_interval(means(rng, 100, noise, restarts), means(rng, 100 * factor, noise, restarts), 0.95)


def share(runs: int, happens: Callable[[], bool]) -> float:
    """How often something happens."""
    return sum(happens() for _ in range(runs)) / runs


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """Everything that is said of two results, or of several options."""
    rng = np.random.default_rng((seed, 16))
    yield from reruns(rng, runs)
    yield from changes(rng, runs)
    yield from comparisons(rng, runs)
    yield from purchases(rng, runs)
    yield from orders(rng, runs)
    yield from others(rng, runs)


def reruns(rng: Rng, runs: int) -> Iterator[Promise]:
    """`rerun`: margin 2 %."""

    def said(verdict: RerunVerdict, factor: float, noise: float, restarts: int = 5) -> float:
        return share(runs, lambda: judge_ratio(ratio(rng, factor, noise, restarts)) is verdict)

    for loss in (0.025, 0.05, 0.10):
        worst = max(said(RerunVerdict.REPRODUCED, 1 - loss, noise, n) for noise in NOISES for n in (3, 5, 10))
        yield at_most("rerun", f"a true loss of {loss:.1%} is `reproduced`, at any noise and 3 to 10 restarts,", worst)
    worst = max(said(RerunVerdict.NOT_REPRODUCED, 1.0, noise, n) for noise in NOISES for n in (3, 5, 10))
    yield at_most("rerun", "an unchanged executor is `not reproduced`", worst)
    worst = max(said(RerunVerdict.NOT_REPRODUCED, 0.985, noise) for noise in NOISES)
    yield at_most("rerun", "a loss of 1.5 %, which is negligible, is `not reproduced`", worst)
    yield at_least("rerun", "unchanged at 0.5 % noise is `reproduced`", said(RerunVerdict.REPRODUCED, 1.0, 0.005))
    yield at_least("rerun", "10 % lost at 1 % noise is `not reproduced`", said(RerunVerdict.NOT_REPRODUCED, 0.9, 0.01))
    drifting = share(runs, lambda: _session_rerun(rng) is RerunVerdict.REPRODUCED)
    yield at_most("rerun", "5 % lost between sittings whose restarts differ by 5 % is `reproduced`", drifting)


def _session_rerun(rng: Rng) -> RerunVerdict:
    before, after = make_result(run_means=means(rng, 100, 0.05)), make_result(run_means=means(rng, 95, 0.05))
    return judge_rerun(before, after).verdict


def changes(rng: Rng, runs: int) -> Iterator[Promise]:
    """`change measure`: the expected range, 2 % wider."""
    expected = Interval(1.2, math.sqrt(1.8), 1.5)

    def said(verdicts: set[ChangeVerdict], factor: float, noise: float) -> float:
        return share(runs, lambda: judge_expectation(expected, ratio(rng, factor, noise)) in verdicts)

    right, less, more = {ChangeVerdict.AS_EXPECTED}, {ChangeVerdict.LESS, ChangeVerdict.NO_EFFECT}, {ChangeVerdict.MORE}
    for factor in (1.0, 1.12, 1.6):
        worst = max(said(right, factor, noise) for noise in NOISES)
        yield at_most("change", f"a true {factor:g}×, where 1.2 to 1.5× was expected, is `as expected`", worst)
    worst = max(said(less | more, factor, noise) for noise in NOISES for factor in (1.2, 1.34, 1.5))
    yield at_most("change", "a change inside the expected range is `less` or `more`", worst)
    worst = max(said({ChangeVerdict.NO_EFFECT}, 1.05, noise) for noise in NOISES)
    yield at_most("change", "a true gain of 5 % is `no effect`", worst)
    yield at_least("change", "1.34× at 1 % noise is `as expected`", said(right, 1.34, 0.01))
    wide = float(judge_expectation(expected, Interval(0.5, 1.3, 3.0)) is ChangeVerdict.AS_EXPECTED)
    yield at_most("change", "an effect known to [0.5, 3.0] is `as expected`", wide, 0.0)


def _pair(a: Result, b: Result) -> Comparison:
    return compare_pair(ComparedPair(ComparedSide(a, "A"), ComparedSide(b, "B")))


def _doubted(result: Result, way: str) -> Result:
    """The same figures with one of the reasons for which they may not decide."""
    figures = result.per_precision[0]
    busy = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("others used 31 % of the machine",))
    if way == "foreign load in the whole run":
        return result.model_copy(update={"validity": busy})
    if way == "throttled":
        held = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("software power cap in 40 % of the readings",))
        figures = figures.model_copy(update={"validity": held})
    elif way == "doubtful without a reason":
        figures = figures.model_copy(update={"validity": Validity(verdict=ValidityVerdict.DOUBTFUL)})
    else:
        assert figures.steady is not None
        steady = figures.steady.model_copy(update={"verdict": SteadyVerdict.INCONCLUSIVE, "reason": "too short"})
        figures = figures.model_copy(update={"steady": steady})
    return result.model_copy(update={"per_precision": (figures,)})


WAYS = ("foreign load in the whole run", "throttled", "doubtful without a reason", "steadiness not shown")
DECIDED = (EffectVerdict.REGRESSED, EffectVerdict.IMPROVED, EffectVerdict.WITHIN_BUDGET)


def comparisons(rng: Rng, runs: int) -> Iterator[Promise]:
    """`compare`: a side that is doubtful shows its figures and convicts nobody."""
    few = max(20, runs // 4)
    for way in WAYS:
        for factor, what in ((0.9, "10 % lost"), (1.0, "unchanged"), (1.1, "10 % gained")):
            compared = []
            for _ in range(few):
                a, b = (make_result(run_means=means(rng, level, 0.0005)) for level in (100, 100 * factor))
                sides = (_doubted(a, way), b) if rng.random() < 0.5 else (a, _doubted(b, way))
                compared.append(_pair(*sides))
            effects = [effect for row in compared for part in row.per_precision for effect in part.effects]
            convicts = sum(row.verdict in DECIDED for row in compared) + sum(e.verdict in DECIDED for e in effects)
            yield at_most("compare", f"{way}, {what}: a verdict is reached", convicts / len(compared), 0.0)
            told = sum(row.effect is not None and bool(row.sound_if) for row in compared) / len(compared)
            yield at_least("compare", f"{way}, {what}: figures stand, and what to do is said,", told, 1.0)
    sure = share(
        few, lambda: _pair(*(make_result(run_means=means(rng, x, 0.01)) for x in (100, 90))).verdict is DECIDED[0]
    )
    yield at_least("compare", "two valid, steady sides, 10 % lost at 1 % noise: `regressed`", sure)


def _tested(passed: float, failed: float) -> Result:
    """The worked example's test instance with another saturation pair."""
    tested = demo_results()[1]
    figures = tested.per_precision[0]
    assert figures.load is not None
    assert figures.load.saturation is not None
    pair = figures.load.saturation.model_copy(update={"passed_per_s": passed, "failed_per_s": failed})
    load = figures.load.model_copy(update={"saturation": pair})
    return tested.model_copy(update={"per_precision": (figures.model_copy(update={"load": load}),)})


def purchases(rng: Rng, runs: int) -> Iterator[Promise]:
    """`decide purchase`: today's pair is [41, 43] req/s, software-bound, with a fix measured at [1.66, 1.76]×."""
    catalogue, today = read_catalogue(None), demo_results()[0]
    few = max(20, runs // 4)

    def decided(factor: float, width: float, now: Result = today) -> tuple[str, str]:
        low = 42 * factor / (1 + width) ** rng.random()  # the pair holds the truth, anywhere in it
        tested = _tested(low, low * (1 + width))
        gathered = Gathered((now, tested), signed(now, tested))
        decision, _ = ask_purchase(gathered, catalogue, proposed="h200", remeasured_by="x")
        return decision.answers[3].says, decision.supported

    for factor in (0.8, 1.2, 1.4):
        answers = [decided(factor, width)[0] for width in (0.02, 0.05, 0.2, 0.7) for _ in range(few // 4)]
        same = sum("the same ceiling" in says for says in answers) / len(answers)
        yield at_most("purchase", f"a ceiling {factor:g} times today's is `the same`, pairs 2 to 70 % wide,", same)
    answers = [decided(1.0, width)[0] for width in (0.2, 0.7) for _ in range(few // 2)]
    apart = sum(": higher" in says or ": lower" in says for says in answers) / len(answers)
    yield at_most("purchase", "an equal ceiling behind wide pairs is `higher` or `lower`", apart)
    same = share(few, lambda: "the same ceiling" in decided(1.0, 0.03)[0])
    yield at_least("purchase", "an equal ceiling behind pairs of 3 % is `the same`", same)
    wrong = [decided(factor, width)[1] for factor in (1.9, 2.3) for width in (0.05, 0.3, 0.9) for _ in range(few // 6)]
    yield at_most(
        "purchase", "the swap gains more than the fix: `software first`", wrong.count("software first") / len(wrong)
    )
    wrong = [decided(factor, width)[1] for factor in (1.0, 1.3) for width in (0.05, 0.3, 0.9) for _ in range(few // 6)]
    yield at_most("purchase", "the fix gains more than the swap: `purchase`", wrong.count("purchase") / len(wrong))
    sure = share(few, lambda: decided(1.3, 0.05)[1] == "software first")
    yield at_least("purchase", "1.3× by the swap, 1.7× by the fix, both well measured: `software first`", sure)
    wasted = share(few, lambda: decided(2.3, 0.05)[1] == "purchase")
    yield at_most("purchase", "2.3× by the swap where software bounds it: `purchase`", wasted, 0.0)
    sure = share(few, lambda: decided(2.3, 0.05, hardware_bound(today))[1] == "purchase")
    yield at_least("purchase", "2.3× by the swap where the hardware bounds it, well measured: `purchase`", sure)
    for name, (_, plant) in OF_EVIDENCE.items():
        fallen = share(few, lambda plant=plant: decided(2.3, 0.05, plant(hardware_bound(today)))[1] == "purchase")
        yield at_most("purchase", f"2.3× by the swap on evidence planted with `{name}`: `purchase`", fallen, 0.0)


def _option(rng: Rng, name: str, truth: tuple[float, float, float], noise: float) -> Option:
    """An option whose rate, p99 and cost were measured with noise; bounds are 95 % intervals of five restarts."""
    rate, tail, price = (mean_interval(means(rng, value, noise)) for value in truth)
    return Option(
        name=name,
        result_id=f"{name:x<64}",
        contract_id="cd" * 32,
        precision=Precision.BF16,
        tenure="own",
        throughput=Figure(low=rate.low, estimate=rate.estimate, high=rate.high, unit="token/s"),
        latency_p99_ms=tail.estimate,
        latency_p99_bounds=tail,
        accuracy_loss=0.0,
        accuracy="reference",
        cost=MoneyFigure(low=price.low, estimate=price.estimate, high=price.high, currency="EUR", per="x"),
        per_joule=None,
        value=None,
        on_front=False,
    )


def orders(rng: Rng, runs: int) -> Iterator[Promise]:
    """`decide cost`: the front, and orders for an objective."""

    def first_alone(regime: Regime, near: float, noise: float) -> str | None:
        """Who comes first and is level with nobody; the truth is that `best` is ahead by so much."""
        best = _option(rng, "best", (100, 10, 1.0), noise)
        others = [_option(rng, f"other {i}", (100 / (1 + near), 10 * (1 + near), 1 + near), noise) for i in range(3)]
        ranking = rank_options([*others, best], regime, asked=True)
        first = ranking.order[0]
        return None if first in ranking.level else first

    for regime in Regime:
        worst = max(
            share(runs, lambda r=regime, n=near, s=noise: first_alone(r, n, s) not in (None, "best"))  # type: ignore[misc]
            for near in (0.0001, 0.01, 0.03)
            for noise in (0.005, 0.02, 0.05)
        )
        yield at_most("order", f"for {regime}, another than the best comes first alone", worst)
        sure = share(runs, lambda r=regime: first_alone(r, 0.2, 0.01) == "best")  # type: ignore[misc]
        yield at_least("order", f"for {regime}, one that is 20 % ahead at 1 % noise comes first", sure)
    bare = [_option(rng, f"o{i}", (100 - i, 10 + i, 1.0), 0.01) for i in range(3)]
    unresolved = [option.model_copy(update={"latency_p99_bounds": None}) for option in bare]
    ranking = rank_options(unresolved, Regime.LATENCY, asked=True)
    yield at_most("order", "an unresolved p99 has a place", len(ranking.order) / 3, 0.0)

    def beaten(truth: tuple[float, float, float], noise: float) -> bool:
        option, other = _option(rng, "o", truth, noise), _option(rng, "p", (100, 10, 1.0), noise)
        return dominates(other, option)

    ahead = ((110.0, 11.0, 1.1), (100.0, 9.0, 1.3), (90.0, 12.0, 0.9))
    worst = max(share(runs, lambda t=truth, s=noise: beaten(t, s)) for truth in ahead for noise in (0.01, 0.03, 0.1))  # type: ignore[misc]
    yield at_most("front", "an option that is a tenth better in one figure is beaten", worst)
    sure = share(runs, lambda: beaten((80.0, 13.0, 1.3), 0.01))
    yield at_least("front", "an option that is a fifth worse in every figure is beaten", sure)


def others(rng: Rng, runs: int) -> Iterator[Promise]:
    """Precisions, the five signs, and instances of a fleet."""
    few = max(20, runs // 4)
    decode = demo_results()[2]
    lower = decode.per_precision[1]

    def precision(**update: object) -> tuple[str, str]:
        figures = lower.model_copy(update=update)
        decision = decide_precisions([decode.model_copy(update={"per_precision": (decode.per_precision[0], figures)})])
        return decision.lines[1].verdict, decision.sentence

    def speed(factor: float, noise: float) -> Figure:
        held = mean_interval(means(rng, 92 * factor, noise))
        return Figure(low=held.low, estimate=held.estimate, high=held.high, unit="token/s")

    p99 = next(p for p in lower.latency_ms["time-per-token"] if p.percentile == 99)
    unresolved = SloOutcome(
        metric="time-per-token",
        percentile=99,
        at_most_ms=9.0,
        measured=p99.model_copy(update={"resolved": False}),
        verdict="unresolved",
    )
    yield at_most("precision", "an unresolved objective is a `go`", float(precision(slo=(unresolved,))[0] == "go"), 0.0)
    wrong = [precision(sustained=speed(1.1, noise))[1] for noise in (0.02, 0.1, 0.3) for _ in range(few)]
    yield at_most("precision", "a tenth faster is `no faster`", sum("no faster" in text for text in wrong) / len(wrong))
    wrong = [precision(sustained=speed(0.98, noise))[1] for noise in (0.02, 0.1, 0.3) for _ in range(few)]
    faster = sum("faster" not in text for text in wrong) / len(wrong)
    yield at_most("precision", "2 % slower is a speed-up", faster)

    def absent(noise: float) -> bool:
        """Sign 5 on two machines of one kind that differ by 2 %, more than the budget."""
        a = make_result(run_means=means(rng, 100, noise))
        b = make_result(executor=make_executor(machine="b"), run_means=means(rng, 98, noise))
        signal = read_signals(Record(contract_id="ab" * 32, contract="x", results=(a, b))).signals[4]
        return signal.state is SignalState.ABSENT

    worst = max(share(few, lambda n=noise: absent(n)) for noise in (0.002, 0.01, 0.05))  # type: ignore[misc]
    yield at_most("signals", "instances that differ by 2 % are `absent`", worst)
    gain = make_attribution(gain_if_removed=Interval(1.05, 1.4, 2.0), layer=Layer.RUNTIME)
    sign = read_signals(Record(contract_id="ab" * 32, contract="x", results=(make_result(attribution=gain),))).signals[
        1
    ]
    yield at_most("signals", "a gain known to [1.05, 2.0] is no gain", float(sign.state is SignalState.ABSENT), 0.0)

    def typical(noise: float) -> bool:
        """One of six instances is 8 % slower."""
        results = {
            f"n{i}": make_result(per_precision=(make_precision(run_means=means(rng, 92 if i == 0 else 100, noise)),))
            for i in range(6)
        }
        compared = compare_instances(results, Precision.FP32, budget=0.005, confidence=0.95)
        assert compared is not None
        row = next(row for row in compared.instances if row.unit == "n0")
        return row.standing is InstanceStanding.TYPICAL

    worst = max(share(few, lambda n=noise: typical(n)) for noise in (0.01, 0.05, 0.1, 0.3))  # type: ignore[misc]
    yield at_most("fleet", "an instance that is 8 % slower is `typical`", worst)
