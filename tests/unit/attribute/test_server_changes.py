"""Launch arguments as tests of a verdict: what is proposed, what does not apply, and what a measured gain says."""

from __future__ import annotations

import pytest

from lynxbench.attribute.judge.server_changes import (
    ANSWERS_CHANGE,
    ServerChange,
    causes_of,
    judge_server_change,
    propose_server_changes,
    with_server_changes,
)
from lynxbench.attribute.judge.server_figures import CAUSES, LimitCause
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.interventions import ArgumentChange, InterventionScope
from lynxbench.model.launching import ServerLaunch
from lynxbench.model.layers import Layer
from lynxbench.tables import read_table

KINDS = ("vllm", "sglang", "llamacpp")
TESTED = ("sequences", "cache", "tokens", "long_prompts", "eager", "slow_kernels", "speculation", "host", "memory")


def found(bottleneck: Category = Category.QUEUEING, bound: Bound = Bound.DEMAND) -> Attribution:
    return Attribution(
        bottleneck=bottleneck,
        bound=bound,
        layer=Layer.DEMAND,
        owner="product",
        shares={bottleneck: 0.9},
        gain_if_removed=Interval(2.0, 3.0, 5.0),
        evidence=("queueing 90 %",),
        sentence="demand-bound: requests wait",
        next_step="add capacity",
        wall_ms_per_step=10.0,
        steps=100,
    )


def names(*arguments: object, **options: object) -> list[str]:
    return [change.name for change in propose_server_changes(*arguments, **options)]  # type: ignore[arg-type]


def test_every_named_cause_has_a_change_for_the_servers_that_can_have_it() -> None:
    table = read_table("model/server_arguments.toml")
    for kind in KINDS:
        known = {cause for row in table[kind]["changes"] for cause in row["causes"]}
        missing = set(TESTED) - known
        assert missing <= ({"eager", "long_prompts"} if kind == "llamacpp" else set()), (kind, missing)
        assert known <= {*CAUSES, "prefix"}, kind
        for row in table[kind]["changes"]:
            launch = {name: change.get("to", 1) for name, change in row["sets"].items()}
            ServerLaunch.model_validate({"server": "one", "arguments": launch})
            assert all(("to" in change) != ("times" in change) for change in row["sets"].values())
    assert {cause for causes in table["bottleneck"].values() for cause in causes} <= {
        cause for kind in KINDS for row in table[kind]["changes"] for cause in row["causes"]
    }


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: str(cause.name))
@pytest.mark.parametrize("server", [*KINDS, "none of them"])
def test_what_a_verdict_names_is_what_is_tested(cause: LimitCause, server: str) -> None:
    named = found().model_copy(update={"next_step": cause.step_for(server)})
    assert causes_of(named) == (cause.name,)
    both = f"{CAUSES['host'].step_for(server)}; and {cause.step_for(server)}"
    assert causes_of(named.model_copy(update={"next_step": both})) == tuple(dict.fromkeys(("host", cause.name)))


def test_a_verdict_is_tested_by_what_removes_it_and_all_by_everything() -> None:
    verdict = names(found(), "vllm", {"max-num-seqs": 4}, InterventionScope.VERDICT)
    assert verdict[0] == "launch with --max-num-seqs 16"
    assert all("seqs" in name or "kv-cache" in name or "memory" in name for name in verdict)
    everything = names(found(), "vllm", {"max-num-seqs": 4, "enforce-eager": True}, InterventionScope.ALL)
    assert everything[: len(verdict)] == verdict
    assert "launch without --enforce-eager" in everything
    assert names(found(), "ollama", {}, InterventionScope.ALL) == []


def test_what_is_so_already_unknown_or_the_machines_own_does_not_apply() -> None:
    changes = {
        change.causes[0]: change
        for change in propose_server_changes(None, "llamacpp", {"flash-attn": "on"}, InterventionScope.ALL, {"threads"})
    }
    assert changes["sequences"].inapplicable is not None  # the last of two: nothing to leave out
    assert changes["slow_kernels"].inapplicable == "the server is launched so already"
    assert changes["arithmetic"].inapplicable == "the contract does not say what --threads is now"
    held = propose_server_changes(None, "llamacpp", {}, ArgumentChange({"threads": 2}), {"threads"})
    assert held[0].inapplicable == "the machine's own command sets --threads; leave it to the contract"
    done = judge_server_change(held[0], [1.0], [], 0.95)
    assert (done.measured.known, done.note.startswith("does not apply: ")) == (False, True)


def test_the_gain_stands_beside_the_prediction_and_decides() -> None:
    change, *_ = propose_server_changes(found(), "vllm", {"max-num-seqs": 4}, InterventionScope.VERDICT)
    assert change.predicted == Interval(2.0, 3.0, 5.0)
    gained = judge_server_change(change, [10.0, 10.1], [30.0, 30.2], 0.95)
    assert gained.measured.estimate == pytest.approx(2.99, abs=0.02)
    assert gained.note == "as predicted"
    told = with_server_changes(found(), [(change, gained)], [10.0, 10.1])
    assert told is not None
    assert "measured by intervention (launch with --max-num-seqs 16): 3.0" in told.sentence.replace("2.99", "3.0")
    assert told.evidence[-1].startswith("intervention confirms the verdict: launch with --max-num-seqs 16")
    nothing = with_server_changes(
        found(), [(change, judge_server_change(change, [10.0, 10.1], [10.0, 10.1], 0.95))], [10.0, 10.1]
    )
    assert nothing is not None
    assert "contradicted" in nothing.sentence


def test_a_verdict_that_names_nobody_is_told_what_gained_most() -> None:
    open_question = found(Category.MEMORY_BANDWIDTH, Bound.UNDETERMINED)
    changes = propose_server_changes(open_question, "vllm", {"enforce-eager": True}, InterventionScope.VERDICT)
    eager = changes[0]
    assert (eager.name, eager.predicted.known, eager.decides) == ("launch without --enforce-eager", False, False)
    gained = judge_server_change(eager, [10.0, 10.1], [15.0, 15.1], 0.95)
    assert gained.note == "no gain was predicted"
    told = with_server_changes(open_question, [(eager, gained)], [10.0, 10.1])
    assert told is not None
    assert told.next_step.startswith("launch without --enforce-eager: measured 1.5")
    assert told.gain_if_removed == gained.measured
    unstable = with_server_changes(open_question, [(eager, gained)], [10.0, 20.0])
    assert unstable is not None
    assert unstable.next_step == open_question.next_step
    assert "the interventions decide nothing" in unstable.evidence[-1]


def test_a_server_that_tells_nothing_is_judged_by_interventions_alone() -> None:
    change = ServerChange({"slots": 4})
    told = with_server_changes(
        None, [(change, judge_server_change(change, [1.0, 1.01], [4.0, 4.02], 0.95))], [1.0, 1.01]
    )
    assert told is not None
    assert told.sentence.startswith("undetermined: the server does not tell")
    assert "by intervention: launch with --slots 4 gained 3.9" in told.sentence
    assert with_server_changes(None, [], []) is None


def test_what_changes_the_answers_says_so() -> None:
    change = ServerChange({"kv-cache-dtype": "fp8"}, answers=True)
    assert judge_server_change(change, [1.0, 1.0], [2.0, 2.0], 0.95).note.endswith(ANSWERS_CHANGE)
    assert change.outcome(UNKNOWN_INTERVAL, "not measured: it died").note == "not measured: it died"
