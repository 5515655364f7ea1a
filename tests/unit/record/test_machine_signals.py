"""Signs are read of each machine by itself: what two machines show is no change of one, and does not add up."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compared import make_attribution, make_executor, make_load, make_precision, make_result, make_slo
from lynxbench.cli.main import app
from lynxbench.compare.machine_series import MOST_MACHINES
from lynxbench.errors import NotFound
from lynxbench.evidence.documents import write_result
from lynxbench.evidence.trust import TrustList
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.history import Signals, SignalState
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result
from lynxbench.record.histories import Past
from lynxbench.record.machine_signals import signals_of
from lynxbench.report.documents.history_document import compose_signals
from lynxbench.report.render_terminal import render_terminal

STILL = (100.0, 100.01, 99.99, 100.005, 99.995)
SLOW = tuple(mean * 0.8 for mean in STILL)
LOW_SHARES = {Category.COMPUTE: 0.4, Category.LAUNCH: 0.6}
MODERATE = make_attribution(shares=LOW_SHARES, gain_if_removed=Interval(1.5, 1.7, 1.9))


def place(folder: Path, results: Sequence[Result]) -> Past:
    for day, result in enumerate(results):
        stamp = f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T00:00:00+00:00"
        changed = {"run_id": f"run-{day}", "started_at": stamp, "result_id": ""}
        (folder / str(day)).mkdir(parents=True)
        write_result(folder / str(day) / "result.json", result.model_copy(update=changed).sealed())
    return Past(None, TrustList(), [folder])


def on(machine: str, changed: dict[str, object] | None = None, **more: object) -> Result:
    return make_result(executor=make_executor(changed or {}, machine=machine), **more)  # type: ignore[arg-type]


def by_letter(signals: Signals) -> dict[str, Signals]:
    return {each.machine.rpartition(" ")[2]: each for each in signals.each_machine}


def turns(first: Callable[[], Result], second: Callable[[], Result], times: int = 3) -> list[Result]:
    return [make() for _ in range(times) for make in (first, second)]


def test_machines_that_take_turns_are_no_change_of_a_layer(tmp_path: Path) -> None:
    """Found: a slower machine with another driver, in turn with a quicker one, had regressed after a change."""
    driver: dict[str, object] = {"system.nvidia_driver": "570.00"}
    runtime = make_attribution(layer=Layer.RUNTIME)
    quick = lambda: on("x", run_means=STILL, attribution=runtime)  # noqa: E731
    slow = lambda: on("y", driver, run_means=SLOW, attribution=runtime)  # noqa: E731
    signals = signals_of(place(tmp_path, turns(quick, slow)), "compared")
    assert set(by_letter(signals)) == {"a", "b"}
    for each in signals.each_machine:
        assert each.signals[0].state is SignalState.NOT_ENOUGH_DATA
        assert "no layer changed" in each.signals[0].said


def test_a_change_on_one_machine_is_that_machines(tmp_path: Path) -> None:
    runtime = make_attribution(layer=Layer.RUNTIME)
    changed = on("y", {"system.nvidia_driver": "570.00"}, run_means=SLOW, attribution=runtime)
    runs = [on("y", run_means=STILL, attribution=runtime), *(on("x", run_means=STILL) for _ in range(3)), changed]
    found = by_letter(signals_of(place(tmp_path, runs), "compared"))
    assert found["a"].signals[0].state is SignalState.PRESENT, "neighbours on their machine, with others between them"
    assert found["b"].signals[0].state is SignalState.NOT_ENOUGH_DATA


def missed() -> Result:
    one = make_precision(slo=(make_slo("missed"),), load=make_load())
    kind: dict[str, object] = {"accelerator.cpu_model": "EPYC"}
    return on("y", kind, per_precision=(one,))


def test_two_signs_of_two_machines_do_not_add_up(tmp_path: Path) -> None:
    """Found: moderate utilisation on one machine and a missed objective on another were stack-shaped together."""
    runs = turns(lambda: on("x", attribution=MODERATE), missed, 2)
    signals = signals_of(place(tmp_path, runs), "compared")
    states = {name: [sign.state for sign in each.signals] for name, each in by_letter(signals).items()}
    assert states["a"].count(SignalState.PRESENT) == 1
    assert states["b"].count(SignalState.PRESENT) == 1
    assert not any(each.stack_shaped for each in signals.each_machine)
    text = render_terminal(compose_signals(signals), width=200)
    assert "2 machines or kinds of them, each judged by itself" in text
    assert "machine b" in text


def test_a_stack_shaped_machine_stands_first_and_sets_the_exit_code(tmp_path: Path) -> None:
    one = make_precision(slo=(make_slo("missed"),), load=make_load())
    both = on("y", per_precision=(one,), attribution=MODERATE)
    past = place(tmp_path / "runs", [both, *(on("x") for _ in range(4))])
    signals = signals_of(past, "compared")
    assert signals.stack_shaped
    assert signals.machine.endswith("machine a")
    arguments = ["--from", str(tmp_path / "runs"), "--ledger", "none", "--json"]
    whole = CliRunner().invoke(app, ["signals", "compared", *arguments])
    assert whole.exit_code == 1, whole.output
    assert len(json.loads(whole.output)["machines"]) == 1
    other = CliRunner().invoke(app, ["signals", "compared@b", *arguments])
    assert other.exit_code == 0, other.output
    assert json.loads(other.output)["machine"].endswith("machine b")
    with pytest.raises(NotFound, match="these have: a, b"):
        signals_of(past, "compared@c")


def test_a_swap_and_instances_are_held_against_other_machines(tmp_path: Path) -> None:
    """A new machine is a swap of hardware, and of two of one kind each is told that it differs from the other."""

    def with_ceiling(machine: str, model: str, per_s: float, means: tuple[float, ...]) -> Result:
        result = on(machine, {"accelerator.cpu_model": model}, run_means=means)
        ceiling = Ceiling(name="matmul", precision=Precision.FP32, per_s=per_s, unit="FLOP/s", how="planted")
        return result.model_copy(update={"ceilings": (ceiling,)})

    runs = [with_ceiling("old", "EPYC", 1e9, STILL), with_ceiling("new", "Xeon", 2e9, STILL)]
    runs += [with_ceiling(*run) for run in (("old", "EPYC", 1e9, STILL), ("other", "Xeon", 2e9, SLOW))]
    found = by_letter(signals_of(place(tmp_path, runs), "compared"))
    swap = {name: each.signals[3].state for name, each in found.items()}
    differ = {name: each.signals[4].state for name, each in found.items()}
    assert swap["a"] is not SignalState.PRESENT, "the old one is what the swap came from"
    assert differ["a"] is SignalState.NOT_ENOUGH_DATA
    del swap["a"], differ["a"]
    assert set(swap.values()) == {SignalState.PRESENT}
    assert set(differ.values()) == {SignalState.PRESENT}


def test_one_machine_reads_as_ever(tmp_path: Path) -> None:
    signals = signals_of(place(tmp_path, [on("x"), on("x")]), "compared")
    assert not {"machine", "machines", "left_out"} & signals.model_dump().keys()
    assert "machine" not in render_terminal(compose_signals(signals), width=200).replace("two machines of", "")


def test_machines_that_are_not_shown_are_counted(tmp_path: Path) -> None:
    many = MOST_MACHINES + 2
    past = place(tmp_path, [on(f"m{n}") for n in range(many) for _ in range(2)])
    signals = signals_of(past, "compared")
    assert len(signals.each_machine) == MOST_MACHINES
    assert signals.left_out == ("4 results of further machines: compared@MACHINE shows one",)
    assert signals_of(past, "compared@a").signals
