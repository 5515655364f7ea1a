"""What a contract asks of a server: lengths, uniqueness, and requests that are whole."""

from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.asking import calibrate
from lynxbench.engines.marked_requests import mark
from lynxbench.engines.openai import count_tokens
from lynxbench.engines.served import build_exchange, load_counter, service_of
from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.plan import ClosedLoop, LoadPlan, parse_target
from lynxbench.load.truth_process import running_server
from lynxbench.workload.request_log import parse_log
from served import served_contract


@pytest.fixture(scope="module")
def url():
    with running_server(Behaviour()) as server:
        yield server.url


def body_of(request: bytes) -> dict:
    head, _, body = request.partition(b"\r\n\r\n")
    stated = int(re.search(rb"Content-Length: (\d+)", head).group(1))
    assert stated == len(body)
    return json.loads(body)


def exchange(url, run=0, text=None, trace=None, **changes):
    contract = parse_contract(text or served_contract(url, **changes))
    return build_exchange(contract, run=run, trace=trace)


def test_every_prompt_is_unique_from_its_first_letters(url):
    one, two = exchange(url, 0), exchange(url, 1)
    prompts = [body_of(e.script.first(n))["messages"][0]["content"] for e in (one, two) for n in range(600)]
    assert len({prompt[:10] for prompt in prompts}) == 1200
    assert len({mark(3, n) for n in range(5000)}) == 5000
    assert one.distinct_prompts is None
    assert one.asked_output == (4,) * 256
    assert pickle.loads(pickle.dumps(one.script)).first(7) == one.script.first(7)
    other = one.script_of(9)
    assert len(other.first(7)) == len(one.script.first(7))
    assert other.first(7) != one.script.first(7)


def test_an_allowed_cache_sees_the_same_prompts_again(url):
    some = exchange(url, engine="cache: allowed\nprompts: 3")
    assert some.script.first(0) == some.script.first(3) != some.script.first(1)
    assert some.distinct_prompts == 3


def test_a_bypassed_cache_is_asked_off(url):
    salted = exchange(url, engine="dialect: vllm\ncache: bypassed")
    salts = {body_of(salted.script.first(n))["cache_salt"] for n in range(50)}
    assert len(salts) == 50
    assert body_of(exchange(url, engine="dialect: llamacpp\ncache: bypassed").script.first(0))["cache_prompt"] is False


def test_conversations_carry_their_answers_and_begin_uniquely(url):
    script = exchange(url, engine="turns: 2").script
    assert not script.stands_alone
    script = pickle.loads(pickle.dumps(script))
    first, second = body_of(script.first(5)), body_of(script.follow(5, ("well",)))
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "user"]
    assert second["messages"][0] == first["messages"][0]
    assert first["messages"][0]["content"].startswith(mark(0, 5))
    assert script.follow(5, ("well", "yes")) is None
    assert body_of(script.of_run(2).first(5))["messages"][0]["content"].startswith(mark(2, 5))


def test_the_server_is_asked_how_it_counts():
    with running_server(Behaviour()) as server:
        contract = parse_contract(served_contract(server.url))
        known = calibrate(contract.engine, service_of(contract, contract.engine, contract.workload.model))
    assert known.has_usage
    assert known.tokens_a_word == 0  # this one says 10 of every prompt
    assert known.overhead == 10


def test_a_tokenizer_sizes_prompts_and_counts_answers(url, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    text = served_contract(url).replace("name: ground-truth}", f"name: ground-truth, tokenizer: {file}}}")
    text = text.replace(
        "input_tokens: {distribution: fixed, value: 10}", "input_tokens: {distribution: fixed, value: 33}"
    )
    some = exchange(url, text=text)
    prompt = body_of(some.script.first(1))["messages"][0]["content"]
    assert len(prompt.split()) == 33
    assert not some.keep_text  # usage is there, so the text need not be kept
    assert some.count("one two three") == 3
    assert count_tokens([-1, 4], ["a b", ""], some.count) == [2, 4]
    with pytest.raises(BadInput, match="tokenizer"):
        load_counter(str(tmp_path / "nothing.json"))


def test_without_usage_the_text_is_kept_for_the_tokenizer(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    with running_server(Behaviour(usage=False, tokens_per_event=2)) as server:
        text = served_contract(server.url).replace("name: ground-truth}", f"name: ground-truth, tokenizer: {file}}}")
        some = exchange(server.url, text=text)
        assert some.keep_text
        plan = LoadPlan(
            parse_target(server.url), some.script, some.language, ClosedLoop(2, requests=6), 5.0, keep_text=True
        )
        record = run_probe(plan)
    assert (record.output_tokens == -1).all()
    assert set(record.events) == {2}  # two tokens an event: events are not tokens
    assert set(count_tokens(record.output_tokens.tolist(), record.texts, some.count)) == {4}


def test_a_trace_gives_its_own_lengths(url):
    rows = "\n".join(json.dumps({"timestamp": i * 10, "input_length": 5 + i, "output_length": 1 + i}) for i in range(4))
    text = served_contract(url, arrival="{process: replay, path: t.jsonl}")
    text = "\n".join(line for line in text.splitlines() if "_tokens:" not in line)
    some = exchange(url, text=text, trace=parse_log(rows))
    assert some.asked_output == (1, 2, 3, 4)
    assert [body_of(some.script.first(n))["max_tokens"] for n in range(4)] == [1, 2, 3, 4]


def test_embeddings_and_tensors(url):
    embed = (
        served_contract(url)
        .replace("task: generate", "task: embed")
        .replace("precisions: [fp32]", "precisions: [fp32]\n  batch: 3")
    )
    embed = "\n".join(line for line in embed.splitlines() if "output_tokens" not in line)
    body = body_of(exchange(url, text=embed).script.first(0))
    assert len(body["input"]) == 3
    assert len({text[:10] for text in body["input"]}) == 1
    tensors = served_contract(url).replace("task: generate", "task: classify").replace("name: openai", "name: kserve")
    lines = [line for line in tensors.splitlines() if "_tokens:" not in line]
    lines.insert(lines.index("engine:") + 1, "  inputs: [{name: x, datatype: INT32, shape: [2, 3], low: 5, high: 7}]")
    lines.insert(lines.index("engine:") + 1, "  binary: false")
    some = exchange(url, text="\n".join(lines))
    values = [body_of(some.script.first(n))["inputs"][0]["data"] for n in range(10)]
    assert set(np.concatenate(values)) == {5, 6, 7}
    assert len({tuple(v) for v in values}) > 3
    assert (some.unit, some.has_tokens) == ("request", False)


def test_a_server_that_cannot_be_asked_is_one_line():
    with pytest.raises(CannotRun, match="does not answer"):
        exchange("http://127.0.0.1:9/v1")
