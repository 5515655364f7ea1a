"""What production sends, as requests: by a server that counts words, and by a real tokenizer."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.exchanging import exchange_of
from lynxbench.engines.marked_requests import mark
from lynxbench.engines.served import load_counter
from lynxbench.errors import BadInput
from lynxbench.load.truth_prompts import BlockCache, prompt_words
from lynxbench.workload.prefixes import PrefixedRequest, shared_prefixes
from lynxbench.workload.request_log import parse_log
from served import served_contract

WORDS = TokenCalibration(has_usage=True, tokens_a_word=1.0, overhead=1.0)
"""A server that counts words, and ten letters as one."""
TOKENIZER = "package:smollm2-135m-instruct"
LENGTHS = "  input_tokens: {distribution: fixed, value: 10}\n"
OUTPUT = "  output_tokens: {distribution: fixed, value: 4}\n"


def contract(engine="", workload="", lengths=True, output=True, **changes):
    text = served_contract("http://127.0.0.1:9/v1", engine=engine, **changes)
    if not lengths:
        text = text.replace(LENGTHS, "")
    if not output:
        text = text.replace(OUTPUT, "")
    return parse_contract(text.replace("engine:\n", f"{workload}engine:\n", 1))


def body_of(request: bytes) -> dict:
    head, _, body = request.partition(b"\r\n\r\n")
    assert int(re.search(rb"Content-Length: (\d+)", head).group(1)) == len(body)
    return json.loads(body)


def asked(exchange, count, first=0):
    return [body_of(exchange.script.first(number)) for number in range(first, first + count)]


# --- files of prompts ---------------------------------------------------------------------------------------------


def written(tmp_path: Path, rows: list[dict]) -> str:
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"  prompts: {{file: {tmp_path / 'prompts.jsonl'}, form: jsonl}}\n"


def test_prompts_are_sent_as_they_are_written(tmp_path: Path):
    rows = [
        {"prompt": 'A "quoted" naïve text\n', "output_tokens": 9},
        {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]},
    ]
    terms = contract("cache: allowed", written(tmp_path, rows), lengths=False, output=False)
    exchange = exchange_of(terms, run=0, calibration=WORDS)
    one, two, again = asked(exchange, 3)
    assert one["messages"] == [{"role": "user", "content": 'A "quoted" naïve text\n'}]
    assert one["max_tokens"] == 9
    assert two["messages"] == rows[1]["messages"]
    assert "max_tokens" not in two
    assert again == one
    assert exchange.asked_output == (9, 0)
    assert exchange.sources[0].rows == 2
    drawn = exchange_of(contract("cache: allowed", written(tmp_path, rows), lengths=False), run=0, calibration=WORDS)
    assert [body["max_tokens"] for body in asked(drawn, 2)] == [4, 4], "the contract's length wins"


def test_an_avoided_cache_puts_letters_before_the_first_text(tmp_path: Path):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    rows = [{"prompt": "text"}, {"messages": [{"role": "user", "content": [image]}]}]
    exchange = exchange_of(contract("", written(tmp_path, rows), lengths=False), run=5, calibration=WORDS)
    text, parts, later = asked(exchange, 3)
    assert text["messages"][0]["content"] == f"{mark(5, 0)} text"
    assert parts["messages"][0]["content"] == [{"type": "text", "text": mark(5, 1)}, image]
    assert later["messages"][0]["content"] == f"{mark(5, 2)} text"
    assert exchange.script_of(6).first(0) != exchange.script.first(0)


def test_a_recorded_answer_tells_the_length_to_ask_for(tmp_path: Path):
    talk = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because it is so."}]
    (tmp_path / "talks.json").write_text(json.dumps([{"conversations": talk}]))
    workload = f"  prompts: {{file: {tmp_path / 'talks.json'}, form: sharegpt}}\n"
    (body,) = asked(exchange_of(contract("", workload, lengths=False, output=False), run=0, calibration=WORDS), 1)
    assert body["max_tokens"] == 4


def test_a_chat_is_not_sent_to_completions(tmp_path: Path):
    rows = [{"prompt": "x"}, {"messages": [{"role": "user", "content": "y"}]}]
    terms = contract("endpoint: completions", written(tmp_path, rows), lengths=False)
    with pytest.raises(BadInput, match="prompt 2 is a chat"):
        exchange_of(terms, run=0, calibration=WORDS)


# --- shared beginnings --------------------------------------------------------------------------------------------


def trace_of(seed: int, requests: int, block: int):
    """A trace in Mooncake's form: beginnings that branch, and lengths that do not fill their last block."""
    draw = np.random.default_rng(seed)
    known, rows = [[0]], []
    for place in range(requests):
        ids = known[draw.integers(len(known))][: draw.integers(1, 6)]
        ids += [int(1000 * place + step) for step in range(draw.integers(0, 4))]
        known.append(list(ids))
        ids.append(-1 - place)  # the last block is short, and so nobody else's
        length = block * len(ids) - int(draw.integers(0, block))
        rows.append({"timestamp": 10 * place, "input_length": length, "output_length": 3, "hash_ids": ids})
    return parse_log("\n".join(map(json.dumps, rows)))


REPLAY = "{process: replay, path: trace.jsonl}"


def traced(trace, run=0, calibration=WORDS, tokenizer="", block=512, **more):
    terms = contract(f"cache: traced\nprefix: {{block: {block}}}", lengths=False, output=False, arrival=REPLAY, **more)
    if tokenizer:
        model = terms.workload.model.model_copy(update={"tokenizer": tokenizer})
        terms = terms.model_copy(update={"workload": terms.workload.model_copy(update={"model": model})})
    return exchange_of(terms, run=run, trace=trace, calibration=calibration)


def leading(one, two) -> int:
    """How much of two sequences is alike from the beginning."""
    pairs = list(zip(one, two, strict=False))
    return next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))


@pytest.mark.parametrize("seed", range(3))
def test_requests_share_exactly_the_leading_blocks_of_the_trace(seed: int):
    trace = trace_of(seed, 60, 64)
    exchange = traced(trace, block=64)
    words = [prompt_words(json.dumps(body).encode()) for body in asked(exchange, len(trace))]
    assert [len(some) for some in words] == trace.input_tokens.tolist()
    for one in range(len(trace)):
        for two in range(one):
            alike = leading(trace.prefixes[one], trace.prefixes[two])
            assert alike * 64 <= leading(words[one], words[two]) <= alike * 64 + 3


def test_a_servers_cache_finds_what_the_trace_holds():
    trace = trace_of(7, 300, 64)
    exchange, cache = traced(trace, block=64), BlockCache(4, None)
    bodies = [json.dumps(body).encode() for body in asked(exchange, len(trace))]
    counted = sum(cache.look_up(prompt_words(body)) for body in bodies) / trace.input_tokens.sum()
    rows = zip(trace.prefixes, trace.input_tokens.tolist(), strict=True)
    expected = shared_prefixes((PrefixedRequest(*row) for row in rows), 64).share
    assert 0.2 < expected < 0.9
    assert counted == pytest.approx(expected, abs=0.02)
    again = [json.dumps(body).encode() for body in asked(exchange, 5, first=len(trace))]
    assert sum(cache.look_up(prompt_words(body)) for body in again[:1]) == 0, "another round shares nothing"
    small = pickle.dumps(exchange.script)
    assert len(small) < 400_000
    assert pickle.loads(small).first(9) == exchange.script.first(9)


def test_a_tokenizer_gives_the_lengths_exactly():
    pytest.importorskip("tokenizers")
    count = load_counter(TOKENIZER)
    trace = trace_of(1, 12, 512)
    template = 31
    short = count("qzkvjxwfyb ") + template
    known = TokenCalibration(has_usage=True, tokens_a_word=1.25, overhead=short + count(" ".join(_prose()[:8])) - 10.0)
    exchange = traced(trace, run=12345, calibration=known, tokenizer=TOKENIZER)
    for body, length in zip(asked(exchange, len(trace)), trace.input_tokens.tolist(), strict=True):
        assert count(body["messages"][0]["content"]) + template == pytest.approx(length, abs=4)


def _prose() -> list[str]:
    from lynxbench.workload.texts import read_prompts

    return read_prompts().split()


def test_hashes_of_another_block_are_refused():
    with pytest.raises(BadInput, match=r"about 5\d tokens a hash.*engine\.prefix\.block"):
        traced(trace_of(0, 20, 64))
    with pytest.raises(BadInput, match="has no hash_ids"):
        traced(parse_log('{"timestamp": 1, "input_length": 3}\n{"timestamp": 2, "input_length": 4}'))


@pytest.mark.parametrize("prefixes", [1, 3])
def test_a_set_share_of_every_prompt_is_common(prefixes: int):
    engine = f"cache: shared\nprompts: 30\nprefix: {{share: 40 %, prefixes: {prefixes}}}"
    text = served_contract("http://127.0.0.1:9/v1", engine=engine)
    terms = parse_contract(text.replace("fixed, value: 10", "uniform, low: 100, high: 900"))
    exchange, cache = exchange_of(terms, run=0, calibration=WORDS), BlockCache(16, None)
    total = counted = 0
    for number in range(300):
        words = prompt_words(json.dumps(body_of(exchange.script.first(number))).encode())
        found = cache.look_up(words)
        if number >= 30:  # the first of each group finds nothing
            total, counted = total + len(words), counted + found
    assert counted / total == pytest.approx(0.4, abs=0.01)
    places = np.arange(30, 300) % 30
    assert exchange.shared.expected(places, places, places, places).share == pytest.approx(0.4, abs=0.01)


# --- several models, forms of answers, sessions -------------------------------------------------------------------


def test_models_are_asked_in_their_shares():
    models = "  models: [{name: ground-truth, share: 50 %}, {name: lora-a, share: 30 %}, {name: lora-b, share: 20 %}]\n"
    exchange = exchange_of(contract("prompts: 100", models), run=0, calibration=WORDS)
    names = [body["model"] for body in asked(exchange, 100)]
    assert [names.count(name) for name in ("ground-truth", "lora-a", "lora-b")] == [50, 30, 20]
    assert len(set(names[:12])) == 3, "mixed, not one after the other"


def test_a_form_is_asked_for_and_its_length_is_a_bound(tmp_path: Path):
    (tmp_path / "schema.json").write_text('{"type": "object", "required": ["a"]}')
    answers = f"  answers: {{form: json, file: {tmp_path / 'schema.json'}}}\n"
    exchange = exchange_of(contract("dialect: vllm", answers), run=0, calibration=WORDS)
    (body,) = asked(exchange, 1)
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["a"]
    assert body["max_tokens"] == 4
    assert not {"ignore_eos", "min_tokens"} & set(body)
    assert exchange.keep_text
    assert exchange.sources[0].what == "answers"


def test_sessions_have_a_request_a_call_and_other_ones_every_round(tmp_path: Path):
    rows = [
        {"session": 0, "input_tokens": 70, "output_tokens": 3, "hash_ids": [1, 2]},
        {"session": 0, "gap": 0.5, "input_tokens": 100, "output_tokens": 4, "hash_ids": [1, 3]},
        {"session": 1, "input_tokens": 64, "output_tokens": 5, "hash_ids": [1]},
    ]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    workload = f"  prompts: {{file: {tmp_path / 's.jsonl'}, form: sessions}}\n"
    exchange = exchange_of(
        contract("cache: traced\nprefix: {block: 64}", workload, lengths=False, output=False), run=0, calibration=WORDS
    )
    script = pickle.loads(pickle.dumps(exchange.script))
    calls = [body_of(script.call(0, 0)), body_of(script.call(0, 1)), body_of(script.first(1)), body_of(script.first(2))]
    words = [prompt_words(json.dumps(body).encode()) for body in calls]
    assert [len(some) for some in words] == [70, 100, 64, 70]
    assert [body["max_tokens"] for body in calls] == [3, 4, 5, 3]
    assert words[0][:64] == words[1][:64] == words[2]
    assert words[0][64] != words[1][64]
    assert words[3][0] != words[0][0]
    assert script.graph(2).gap_ns == (0, 500_000_000)
    assert exchange.place_of(np.array([0, 0, 1, 3]), np.array([0, 1, 0, 0])).tolist() == [0, 1, 2, 2]
    avoided = exchange_of(contract("", workload, lengths=False, output=False), run=0, calibration=WORDS)
    firsts = [prompt_words(json.dumps(body_of(avoided.script.first(n))).encode())[0] for n in range(6)]
    assert len(set(firsts)) == 6
