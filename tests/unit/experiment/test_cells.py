from __future__ import annotations

import pytest

from command_line import QUICK_CONTRACT
from lynxbench.contract.diff import compare_contracts
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadInput
from lynxbench.experiment.cells import seeded, shown, space_of, tuned, untuned, variables
from lynxbench.model.contract import Attention, Contract, Graph, TorchEngine
from lynxbench.model.serving import OpenAiEngine
from served import served_contract

KNOBS = """\
optimisation:
  division: bounded
  knobs:
    engine.threads: [1, 2, 4]
    environment.malloc_arena_max: [1, 2]
  trials: 4
"""


def contract(text: str = KNOBS) -> Contract:
    return parse_contract(QUICK_CONTRACT + text)


def test_a_setting_becomes_a_contract_and_variables() -> None:
    space = space_of(contract())
    assert space.settings == 6
    assert space.ordered == (True, True)
    setting = space.at((2, 1))
    assert tuned(contract(), setting).engine.threads == 4  # type: ignore[union-attr]
    assert variables(setting) == {"MALLOC_ARENA_MAX": "2"}
    assert shown(setting) == "engine.threads 4, environment.malloc_arena_max 2"


def test_divisions_are_kept_apart_by_the_comparability_rules() -> None:
    best, plain = tuned(contract(), {"engine.threads": 2}), untuned(contract())
    assert (best.optimisation.division.value, plain.optimisation.division.value) == ("bounded", "none")
    found = compare_contracts(plain, best)
    assert found.verdict == "incomparable"
    assert any(one.key.startswith("optimisation") and one.breaks for one in found.differences)
    other = tuned(contract(), {"engine.threads": 4})
    assert compare_contracts(best, other).verdict == "comparable with differences"


def test_a_seed_changes_the_seed_alone() -> None:
    before, after = contract(), seeded(contract(), 77)
    assert after.workload.seed == 77
    assert [one.key for one in compare_contracts(before, after).differences] == ["workload.seed"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "division is none"),
        ("optimisation: {division: open}\n", "knobs is empty"),
        ("optimisation: {division: bounded, knobs: {protocol.restarts: [1]}, trials: 2}\n", "name a key of engine"),
        ("optimisation: {division: bounded, knobs: {workload.seed: [1]}, trials: 2}\n", "is no knob"),
    ],
)
def test_contracts_that_allow_no_such_tuning_are_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        space_of(contract(text))


def test_a_setting_that_makes_no_contract_says_why() -> None:
    with pytest.raises(BadInput, match="no such contract"):
        tuned(contract(), {"engine.threads": 0})
    with pytest.raises(BadInput, match="no such key"):
        tuned(contract(), {"engine.graph": "compile"})


TORCH_CONTRACT = """\
lynxbench: 1
name: knobs
question: Which kernel attends best?
regime: latency
workload:
  task: decode
  model: {source: preset, name: smollm2-135m}
  precisions: [bf16]
  input_tokens: {distribution: fixed, value: 12}
engine: {name: torch}
"""
BOUNDED = """\
optimisation:
  division: bounded
  knobs: {engine.attention: [sdpa, grouped], engine.graph: [eager, compile-cuda-graph]}
  trials: 4
"""


def test_attention_and_graph_are_knobs_and_the_usual_ones_change_no_id() -> None:
    bounded = parse_contract(TORCH_CONTRACT + BOUNDED)
    made = tuned(bounded, {"engine.attention": "grouped", "engine.graph": "compile-cuda-graph"}).engine
    assert isinstance(made, TorchEngine)
    assert (made.attention, made.graph) == (Attention.GROUPED, Graph.COMPILE_CUDA_GRAPH)
    said = parse_contract(TORCH_CONTRACT.replace("{name: torch}", "{name: torch, attention: sdpa, graph: eager}"))
    assert untuned(bounded).contract_id == parse_contract(TORCH_CONTRACT).contract_id == said.contract_id


def served(knob: str, serve: str = "serve: {server: tiny, arguments: {slots: 1}}") -> Contract:
    text = served_contract("http://127.0.0.1:1/v1", engine=serve)
    return parse_contract(f"{text}optimisation: {{division: bounded, trials: 2, knobs: {{{knob}}}}}\n")


def test_launch_arguments_are_knobs_also_those_that_the_contract_does_not_name() -> None:
    contract = served("engine.serve.arguments.slots: [1, 4], engine.serve.arguments.eager: [false, true]")
    space = space_of(contract)
    engine = tuned(contract, space.at((1, 1))).engine
    assert isinstance(engine, OpenAiEngine)
    assert engine.serve is not None
    assert engine.serve.arguments == {"slots": 4, "eager": True}


@pytest.mark.parametrize("knob", ["engine.serve.arguments.slots: [1, 4]", "environment.omp_num_threads: [1, 2]"])
def test_nothing_of_a_server_is_turned_that_is_not_started_here(knob: str) -> None:
    with pytest.raises(BadInput, match=r"its server is not started here; give it engine\.serve"):
        space_of(served(knob, ""))
    if "environment" in knob:
        assert space_of(served(knob)).settings == 2
