"""Executor documents and site files under arbitrary input: a value or one clear error, never anything else."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.errors import BadInput, BadResult
from lynxbench.executor.compatibility import CudaStack, check_cuda
from lynxbench.executor.declaration import parse_declaration
from lynxbench.executor.executor_document import executor_document, parse_executor
from lynxbench.executor.host import exact_json, format_cpu_list, parse_cpu_list
from lynxbench.executor.mapped import parse_maps
from lynxbench.executor.processor import parse_memory_speeds
from lynxbench.model.executor import Executor, Field, Status, Tier
from lynxbench.model.layers import Layer

QUICK = settings(max_examples=100, deadline=None)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=8), v, max_size=4), max_leaves=8
)
FIELDS = st.builds(
    Field, value=VALUES, source=st.text(max_size=10), status=st.sampled_from(Status), tier=st.sampled_from(Tier)
)
LAYERS = st.dictionaries(st.sampled_from(Layer), st.dictionaries(st.text(max_size=10), FIELDS, max_size=4), max_size=9)


def refusal(parse: Callable[[str], object], text: str, kind: type[Exception]) -> str:
    """What the parser says against a text; nothing where it takes it. Any other exception is a fault."""
    try:
        parse(text)
    except kind as problem:
        return str(problem)
    return ""


@QUICK
@given(LAYERS)
def test_documents_round_trip_with_their_ids(layers: dict[Layer, dict[str, Field]]) -> None:
    executor = Executor(layers=layers)
    again = parse_executor(json.dumps(executor_document(executor)))
    assert again.executor_id == executor.executor_id
    assert again.instance_id == executor.instance_id


@QUICK
@given(
    st.text(max_size=200) | st.recursive(SCALARS, lambda v: st.lists(v) | st.dictionaries(st.text(), v)).map(json.dumps)
)
def test_any_text_is_an_executor_or_one_line(text: str) -> None:
    problem = refusal(parse_executor, text, BadResult)
    assert "\n" not in problem


@QUICK
@given(st.text(max_size=200) | VALUES.map(lambda v: "lynxbench: 1\nfacility: " + json.dumps(v)))
def test_any_text_is_a_declaration_or_one_line(text: str) -> None:
    problem = refusal(lambda given: parse_declaration(given, "f"), text, BadInput)
    assert "\n" not in problem
    assert not problem or problem.startswith("f:")


@QUICK
@given(st.sets(st.integers(0, 512)))
def test_cpu_lists_round_trip(cpus: set[int]) -> None:
    assert parse_cpu_list(format_cpu_list(cpus)) == sorted(cpus)


@QUICK
@given(st.binary(max_size=400))
def test_any_firmware_table_is_read_or_passed_over(table: bytes) -> None:
    assert all(speed > 0 for speed in parse_memory_speeds(table))


@QUICK
@given(st.text(max_size=300))
def test_any_map_gives_shared_objects_only(text: str) -> None:
    assert all(".so" in path for path in parse_maps(text))


@QUICK
@given(st.integers() | st.floats() | st.dictionaries(st.integers(), st.integers()))
def test_exact_json_is_always_json(value: object) -> None:
    assert json.loads(json.dumps(exact_json(value), allow_nan=False)) == exact_json(value)


VERSION = st.none() | st.from_regex(r"[0-9]{1,3}\.[0-9]{1,2}(\.[0-9]{1,2})?", fullmatch=True) | st.text(max_size=6)
ARCHS = st.none() | st.lists(st.from_regex(r"(sm|compute)_[0-9]{2,3}[af]?", fullmatch=True), max_size=4).map(tuple)
CAPABILITIES = st.lists(st.from_regex(r"[0-9]{1,2}\.[0-9]", fullmatch=True), max_size=3).map(tuple)


@QUICK
@given(VERSION, VERSION, VERSION, VERSION, ARCHS, CAPABILITIES)
def test_every_stack_gets_findings_with_reasons(
    driver: str | None, own: str | None, toolkit: str | None, built: str | None,
    archs: tuple[str, ...] | None, capabilities: tuple[str, ...],
) -> None:  # fmt: skip
    found = check_cuda(CudaStack(driver, own, toolkit, "torch", built, archs, capabilities))
    assert all(finding.reason for finding in found)
