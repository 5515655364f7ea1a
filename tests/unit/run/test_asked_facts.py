"""What a client keeps of its own work: no word of a prompt, what a cache could have held, forms of answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.exchanging import exchange_of
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.plan import OpenLoop
from lynxbench.load.truth_process import running_server
from lynxbench.run.asked_facts import CacheResets, checked_answers, expected_cache, without_texts
from lynxbench.run.client_job import plan_of
from lynxbench.run.work_files import read_work_files
from served import served_contract

CANARY = "hoatzin"
WORDS = TokenCalibration(has_usage=True, tokens_a_word=1.0, overhead=1.0)


def contract(url: str, workload: str, engine: str = "", arrival: str = "{process: constant, rate: 9 /s}"):
    text = served_contract(url, engine=engine, arrival=arrival)
    lengths = "  input_tokens: {distribution: fixed, value: 10}\n  output_tokens: {distribution: fixed, value: 4}\n"
    return parse_contract(text.replace(lengths, "").replace("engine:\n", f"{workload}engine:\n", 1))


def asked(terms, requests: int = 60):
    exchange = exchange_of(terms, run=0, calibration=WORDS)
    plan = plan_of(terms, exchange, OpenLoop(np.arange(requests) * 2_000_000), 3.0, 0)
    return run_probe(plan), exchange


def test_what_a_server_quotes_is_withheld_unless_it_is_asked_for(tmp_path: Path):
    (tmp_path / "p.txt").write_text(f"{CANARY} one\n{CANARY} two\n")
    prompts = f"  prompts: {{file: {tmp_path / 'p.txt'}, form: lines%s}}\n"
    with running_server(Behaviour(http500=0.5, quotes=True)) as server:
        terms = contract(server.url, prompts % "")
        record, _ = asked(terms)
        kept = contract(server.url, prompts % ", keep_text: true")
    assert any(CANARY in said for said in record.notes), "the server did quote them"
    withheld = without_texts(record, terms)
    assert not any(CANARY in said for said in withheld.notes)
    assert sum(withheld.notes.values()) == sum(record.notes.values())
    assert without_texts(record, kept).notes == record.notes


def test_answers_of_a_form_are_counted_and_none_is_kept(tmp_path: Path):
    (tmp_path / "p.txt").write_text("one\n")
    (tmp_path / "schema.json").write_text(json.dumps({"type": "object", "required": ["city"]}))
    work = f"  prompts: {{file: {tmp_path / 'p.txt'}, form: lines}}\n"
    work += f"  answers: {{form: json, file: {tmp_path / 'schema.json'}}}\n"
    for says, valid in ((json.dumps({"city": CANARY}), 60), (json.dumps({"town": CANARY}), 0)):
        with running_server(Behaviour(says=says, tokens=5)) as server:
            terms = contract(server.url, work)
            record, exchange = asked(terms)
        figures = checked_answers(record, exchange)
        assert (figures.checked, figures.valid) == (60, valid)
        assert sum(figures.problems.values()) == 60 - valid
        assert any(CANARY in text for text in record.texts)
        assert without_texts(record, terms).texts == ()


def test_a_tool_that_is_called_is_known_or_not(tmp_path: Path):
    (tmp_path / "p.txt").write_text("one\n")
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"required": ["city"]}}}
    (tmp_path / "tools.json").write_text(json.dumps([tool]))
    work = f"  prompts: {{file: {tmp_path / 'p.txt'}, form: lines}}\n"
    work += f"  answers: {{form: tools, file: {tmp_path / 'tools.json'}}}\n"
    for name, problem in (("weather", {}), ("wether", {"a tool that was not offered": 20})):
        with running_server(Behaviour(says='{"city": "Oslo"}', tool=name, tokens=4)) as server:
            record, exchange = asked(contract(server.url, work), 20)
        assert checked_answers(record, exchange).problems == problem


def test_the_cache_that_could_have_been_is_that_of_the_requests_that_were_sent(tmp_path: Path):
    rows = [{"session": n, "input_tokens": 20, "output_tokens": 1, "hash_ids": [1, 2 + n]} for n in range(4)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    work = f"  prompts: {{file: {tmp_path / 's.jsonl'}, form: sessions}}\n"
    with running_server(Behaviour(ttft_ms=0.5, cache_block=2)) as server:
        terms = contract(server.url, work, engine="cache: traced\nprefix: {block: 10}")
        read_work_files(terms)
        record, exchange = asked(terms, 8)
    expected = expected_cache(record, exchange)
    # Two rounds of four: in each, all but the first share the first block of ten.
    assert (expected.share, expected.input_tokens, expected.block) == (60 / 160, 160, 10)
    assert record.cached_tokens.sum() / record.input_tokens.sum() == 60 / 160


def test_a_cache_that_cannot_be_emptied_is_said():
    with running_server(Behaviour(cache_block=4)) as server:
        for engine, words in (
            ("prefix: {reset: true}", "not emptied: dialect generic has no request"),
            ("dialect: sglang\nprefix: {reset: true}", "emptied 2 times"),
            ("", ""),
        ):
            resets = CacheResets(parse_contract(served_contract(server.url, engine=engine)))
            resets.reset()
            resets.reset()
            assert resets.words.startswith(words)
            assert bool(resets.words) == bool(words)
    with running_server(Behaviour()) as server:
        resets = CacheResets(parse_contract(served_contract(server.url, engine="dialect: vllm\nprefix: {reset: true}")))
        resets.reset()
        assert resets.words == (
            "not emptied: POST /reset_prefix_cache: status 404; start vLLM with VLLM_SERVER_DEV_MODE=1"
        )
