"""What holds for every log that can be read."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.errors import BadInput
from lynxbench.model.workload import Workload
from lynxbench.workload.production import fit_length, fit_log, length_cdf
from lynxbench.workload.representative import distance
from lynxbench.workload.request_log import parse_log

rows = st.lists(
    st.fixed_dictionaries(
        {
            "arrival": st.floats(0, 1e5).map(lambda x: round(x, 6)),
            "input_tokens": st.integers(1, 5000),
            "output_tokens": st.integers(0, 5000),
        }
    ),
    min_size=2,
    max_size=60,
)


@settings(max_examples=40, deadline=None)
@given(rows)
def test_whatever_can_be_read_becomes_a_contract_that_can_be_held_against_it(log: list[dict[str, float]]) -> None:
    try:
        read = parse_log("\n".join(json.dumps(row) for row in log))
    except BadInput as error:
        assert "same arrival time" in str(error)  # noqa: PT017
        return
    assert (np.diff(read.arrival_s) >= 0).all()
    fitted = fit_log(read)
    if fitted.output is None:
        return
    document = {"task": "generate", "model": {"source": "served", "name": "m"}, "precisions": ["bf16"]}
    workload = Workload.model_validate_json(json.dumps({**document, **fitted.workload_keys()}))
    json.dumps(distance(workload, read).document(), allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=200))
def test_a_fitted_distribution_is_one_and_stays_inside_what_was_recorded(values: list[int]) -> None:
    found = fit_length(np.array(values))
    low, high = min(values), max(values)
    inside = length_cdf(found.length, np.array([low - 1, low, (low + high) // 2, high]))
    assert inside[0] == 0.0
    assert inside[-1] == 1.0
    assert (np.diff(inside) >= 0).all()
    assert 0 <= found.ks <= 1


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        log = parse_log(text, "log")
    except BadInput as error:
        assert str(error).startswith("log")  # noqa: PT017
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert len(log) >= 2
