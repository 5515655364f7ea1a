"""`contract new --mlperf`: each scenario's contract loads as it is, with its arrivals and bounds."""

from __future__ import annotations

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.contract.template import render_template
from lynxbench.errors import BadInput
from lynxbench.model.mlperf_forms import MlperfForm
from lynxbench.model.workload import Task


@pytest.mark.parametrize("form", MlperfForm)
def test_each_scenario_is_a_contract(form: MlperfForm) -> None:
    task = Task.EMBED if form is MlperfForm.MULTI_STREAM else Task.GENERATE
    contract = parse_contract(render_template(task, engine="openai", mlperf=form))
    assert contract.objective.mlperf is form
    bounds = [(slo.metric.value, slo.percentile, slo.at_most_s) for slo in contract.objective.slo]
    server = [("time-to-first-token", 99, 2.0), ("time-per-token", 99, 0.2)]
    assert bounds == (server if form is MlperfForm.SERVER else [])
    assert contract.protocol.restarts * contract.protocol.min_duration_s == 600


def test_a_scenario_without_a_server_is_refused() -> None:
    with pytest.raises(BadInput, match="--mlperf goes with a server"):
        render_template(engine="torch", mlperf=MlperfForm.OFFLINE)


def test_a_generating_multi_stream_is_refused() -> None:
    with pytest.raises(BadInput, match=r"a request to a server generates one answer|8 samples in one query"):
        render_template(engine="openai", mlperf=MlperfForm.MULTI_STREAM)
