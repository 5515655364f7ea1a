"""Contracts against servers: what fits together, and what is refused with its key."""

from __future__ import annotations

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.contract.writer import Marked, render_contract
from lynxbench.errors import BadFile
from lynxbench.model.serving import CacheState, OpenAiEngine
from lynxbench.model.workload import RampArrival, SaturatingArrival, ServedModel
from served import served_contract

URL = "http://127.0.0.1:8000/v1"


def test_a_served_contract_reads_back_as_itself():
    contract = parse_contract(
        served_contract(URL, engine="dialect: vllm\ncache: bypassed\nlaunch: [--dtype, bfloat16]")
    )
    assert isinstance(contract.engine, OpenAiEngine)
    assert isinstance(contract.workload.model, ServedModel)
    assert contract.engine.cache is CacheState.BYPASSED
    assert contract.engine.timeouts.idle_s == 0.4
    assert contract.engine.instrument.busy == 1.0
    assert type(contract).model_validate_json(contract.model_dump_json(by_alias=True)) == contract


@pytest.mark.parametrize(
    ("arrival", "kind"),
    [
        ("{process: ramp, from: 1 /s, to: 9 /s}", RampArrival),
        ("{process: saturating, tolerance: 10 %, budget: 1 min}", SaturatingArrival),
    ],
)
def test_new_arrivals(arrival, kind):
    assert isinstance(parse_contract(served_contract(URL, arrival=arrival)).workload.arrival, kind)


def test_a_closed_loop_that_is_spread_keeps_its_id_and_one_that_starts_together_has_another():
    plain, spread, together = (
        parse_contract(served_contract(URL, arrival=f"{{process: closed, concurrency: 4{start}}}"))
        for start in ("", ", start: spread", ", start: together")
    )
    assert plain.canonical()["workload"]["arrival"] == {"process": "closed", "concurrency": 4}
    assert spread.contract_id == plain.contract_id
    assert together.contract_id != plain.contract_id
    assert parse_contract(render_contract(together, Marked())).contract_id == together.contract_id


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (URL, "http://me:secret@127.0.0.1/v1", "must not carry a password"),
        (URL, "ftp://127.0.0.1/v1", "is not an address"),
        (URL, "http://127.0.0.1:99999/v1", "is not an address"),
        (URL, "http://127.0.0.1/v1?key=1", "without what follows"),
        ("precisions: [fp32]", "precisions: [fp32, bf16]", "one precision"),
        ("source: served, name: ground-truth", "source: preset, name: smollm2-135m", "model source served goes with"),
        ("name: openai\n", "name: openai\n  cache: bypassed\n", "cannot bypass its prefix cache"),
        ("name: openai\n", "name: openai\n  turns: 3\n  endpoint: completions\n", "several turns need endpoint chat"),
        ("name: openai\n", "name: openai\n  api_key_env: not a name\n", "not the name of an environment variable"),
        ("precisions: [fp32]", "precisions: [fp32]\n  batch: 4", "one answer"),
        ("idle: 400 ms", "idle: 0 s", "must be above"),
        ("{process: poisson, rate: 100 /s}", "{process: ramp, from: 0 /s, to: 0 /s}", "nothing would be asked"),
        ("{process: poisson, rate: 100 /s}", "{process: closed, start: slowly}", "not one of spread, together"),
        ("objective:\n  slo: [{metric: latency, percentile: 90, at_most: 1 s}]", "", "X"),
    ],
)
def test_what_cannot_be_is_refused(old, new, says):
    text = served_contract(URL)
    if says == "X":
        text = served_contract(URL, arrival="{process: saturating}")
        says = "needs at least one bound"
    assert old in text
    with pytest.raises(BadFile, match=says):
        parse_contract(text.replace(old, new))


def test_tokens_are_only_seen_in_a_stream():
    text = served_contract(
        URL, slo="{metric: time-to-first-token, percentile: 90, at_most: 1 s}", engine="stream: false"
    )
    with pytest.raises(BadFile, match="only streamed answers"):
        parse_contract(text)


def test_a_server_does_not_train():
    text = served_contract(URL).replace("task: generate", "task: train-step")
    text = "\n".join(line for line in text.splitlines() if "output_tokens" not in line)
    with pytest.raises(BadFile, match="openai can do generate, embed, rerank and transcribe"):
        parse_contract(text)
