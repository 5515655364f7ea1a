"""Responses, Messages, rerank and transcription, asked of the bundled server through the real driver."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.engines.exchanging import exchange_of
from lynxbench.engines.other_work import ask_other
from lynxbench.engines.served import ask_first
from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.load_record import LoadRecord, RequestEnd
from lynxbench.load.load_summary import account
from lynxbench.load.plan import ClosedLoop
from lynxbench.model.contract import Contract
from lynxbench.model.workload import SERVED_TASKS
from lynxbench.run.client_job import plan_of
from truth_thread import truth_in_thread

HEAD = "lynxbench: 1\nname: forms\nquestion: Does it answer?\nregime: latency\n"
LENGTHS = "  input_tokens: {distribution: fixed, value: 12}\n  output_tokens: {distribution: fixed, value: 4}\n"
RANKED = (
    "  input_tokens: {distribution: fixed, value: 12}\n"
    "  rerank: {documents: {distribution: uniform, low: 2, high: 9}}\n"
)
SOUND = "  audio: {seconds: {distribution: uniform, low: 1, high: 3}, samples_per_s: 8000}\n"
KINDS = {
    "responses": ("generate", LENGTHS, "  endpoint: responses\n"),
    "messages": ("generate", LENGTHS, "  endpoint: messages\n"),
    "responses whole": ("generate", LENGTHS, "  endpoint: responses\n  stream: false\n"),
    "messages whole": ("generate", LENGTHS, "  endpoint: messages\n  stream: false\n"),
    "rerank": ("rerank", RANKED, ""),
    "rerank at its root": ("rerank", RANKED, "  path: /rerank\n"),
    "rerank of TEI": ("rerank", RANKED, "  dialect: tei\n"),
    "transcribe": ("transcribe", SOUND, ""),
}


def contract(url: str, kind: str, added: str = "") -> Contract:
    task, workload, engine = KINDS[kind]
    text = f"{HEAD}workload:\n  task: {task}\n  model: {{source: served, name: ground-truth}}\n  precisions: [fp32]\n"
    engine = f"engine:\n  name: openai\n  url: {url}\n  prompts: 40\n{engine}{added}"
    return parse_contract(text + workload + engine)


def drive(terms: Contract, requests: int = 100) -> LoadRecord:
    greeted = ask_other if terms.workload.task in SERVED_TASKS else None
    known = greeted(terms, terms.engine, terms.workload.model) if greeted else ask_first(terms)
    exchange = exchange_of(terms, run=1, calibration=known)
    return run_probe(plan_of(terms, exchange, ClosedLoop(4, requests=requests), 60.0, 1))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with truth_in_thread(Behaviour()) as (address, _):
        yield address


@pytest.mark.parametrize("kind", KINDS)
def test_every_request_is_answered_and_its_work_is_counted(url: str, kind: str) -> None:
    terms = contract(url, kind)
    record = drive(terms)
    assert account(record).ok == 100, account(record)
    exchange = exchange_of(terms, run=1, calibration=ask_first(terms) if terms.workload.output_tokens else None)
    if terms.workload.output_tokens:
        assert (record.output_tokens == 4).all()
        assert exchange.unit == "token"
        assert (record.input_tokens > 0).all()
    else:
        low, high = (2, 9) if terms.workload.rerank else (1, 3)
        assert set(np.unique(record.output_tokens)) == set(range(low, high + 1)), "what is counted was not drawn"
        assert exchange.unit == ("document" if terms.workload.rerank else "audio-second")
    assert (record.events == (4 if kind in ("responses", "messages") else 1)).all()


WRONG = {
    "responses": ("error-body", "error-event", "cut", "no-usage", "empty", "other"),
    "messages": ("error-body", "error-event", "cut", "no-usage", "empty", "other"),
    "responses whole": ("error-body", "no-usage", "empty", "other"),
    "messages whole": ("error-body", "no-usage", "empty", "other"),
    "rerank": ("error-body", "empty", "other", "fewer"),
    "rerank of TEI": ("error-body", "empty", "other", "fewer"),
    "transcribe": ("error-body", "empty", "other", "fewer"),
}
ENDS = {
    "error-body": (RequestEnd.STREAM_ERROR, "a fault on demand"),
    "error-event": (RequestEnd.STREAM_ERROR, "a fault on demand"),
    "cut": (RequestEnd.STREAM_ERROR, "broke off before its last event"),
    "no-usage": (RequestEnd.STREAM_ERROR, "no usage"),
    "empty": (RequestEnd.EMPTY_ANSWER, "empty answer"),
    "other": (RequestEnd.MALFORMED, "malformed"),
    "fewer": (RequestEnd.STREAM_ERROR, "where"),
}
OTHER_ENDS = {
    ("rerank", "empty"): (RequestEnd.STREAM_ERROR, "0 results, where"),
    ("rerank of TEI", "empty"): (RequestEnd.STREAM_ERROR, "0 results, where"),
    ("transcribe", "empty"): (RequestEnd.STREAM_ERROR, "without words"),
    ("transcribe", "fewer"): (RequestEnd.STREAM_ERROR, "it heard 0 s of"),
}


@pytest.mark.parametrize(("kind", "fault"), [(kind, fault) for kind in WRONG for fault in WRONG[kind]])
def test_a_wrong_answer_is_a_failure_with_its_reason(kind: str, fault: str) -> None:
    added = "  timeouts: {first_byte: 5 s, idle: 5 s, total: 20 s}\n"
    with truth_in_thread(Behaviour(wrong=0.3, fault=fault)) as (url, server):
        record = drive(contract(url, kind, added), requests=60)  # the first wrong one is the third
        truth = server.truth()
    wanted, words = OTHER_ENDS.get((kind, fault), ENDS[fault])
    counted = account(record)
    wrong = int((record.kind == wanted).sum())
    assert wrong == truth.count(ServedOutcome.WRONG) > 10, counted
    assert counted.ok == 60 - wrong
    assert (record.output_tokens[record.kind != RequestEnd.OK] == -1).all(), "tokens of an answer that is none"
    assert any(words in said for said in counted.said), counted.said


@pytest.mark.parametrize("kind", ["responses", "messages"])
def test_thinking_comes_before_the_answer_and_is_told_apart(kind: str) -> None:
    with truth_in_thread(Behaviour(ttft_ms=2, itl_ms=8, tokens=6, reasoning=3)) as (url, _):
        record = drive(contract(url, kind), requests=8)
    assert account(record).ok == 8
    assert (record.first_answer_ns > record.first_token_ns).all(), "thinking was taken for the answer"
    assert (record.output_tokens == 6).all()
    # Messages has no count of thinking in its usage, and an event is no token.
    assert (record.reasoning_tokens == (3 if kind == "responses" else -1)).all()


@pytest.mark.parametrize("kind", ["responses", "messages", "rerank", "transcribe"])
def test_a_server_that_always_fails_is_said_before_the_run(kind: str) -> None:
    refused = pytest.raises(CannotRun, match="a fault on demand")
    with truth_in_thread(Behaviour(wrong=1.0, fault="error-body")) as (url, _), refused:
        drive(contract(url, kind))


@pytest.mark.parametrize("kind", ["responses", "messages"])
def test_pieces_cut_anywhere_are_read_alike(kind: str) -> None:
    with truth_in_thread(Behaviour(split_writes=True, tokens=5, tokens_per_event=2)) as (url, _):
        record = drive(contract(url, kind), requests=20)
    assert account(record).ok == 20
    assert (record.output_tokens == 5).all()
    assert (record.events == 3).all()


def test_a_transcript_without_words_is_an_answer_where_the_contract_says_so() -> None:
    with truth_in_thread(Behaviour(wrong=0.3, fault="empty")) as (url, _):
        text = contract(url, "transcribe").model_dump(mode="json", by_alias=True)
        text["workload"]["audio"]["may_be_empty"] = True
        record = drive(parse_contract(json.dumps(text)), requests=20)
    assert account(record).ok == 20


def test_requests_differ_from_each_other_where_the_cache_is_avoided(url: str) -> None:
    for kind, cache, distinct in (("transcribe", "avoided", 90), ("rerank", "avoided", 90), ("rerank", "allowed", 40)):
        terms = contract(url, kind, f"  cache: {cache}\n")
        exchange = exchange_of(terms, run=1, calibration=ask_other(terms, terms.engine, terms.workload.model))
        sent = [exchange.script.first(number) for number in range(90)]
        assert len(set(sent)) == distinct
        assert exchange.script_of(2).first(0) != sent[0] or cache == "allowed"
        for request in sent:
            head, _, body = request.partition(b"\r\n\r\n")
            assert b"Content-Length: %d" % len(body) in head


REFUSED = {
    "rerank without its key": ("rerank", "  input_tokens: {distribution: fixed, value: 8}\n", "", "go together"),
    "rerank without lengths": ("rerank", "  rerank: {documents: {distribution: fixed, value: 3}}\n", "", "is missing"),
    "sound for a chat": ("generate", LENGTHS + SOUND, "", "go together"),
    "sound with tokens": ("transcribe", LENGTHS.split("\n")[0] + "\n" + SOUND, "", "has no effect"),
    "too long": ("transcribe", "  audio: {seconds: {distribution: fixed, value: 9999}}\n", "", "longer than a request"),
    "ranks past the cache": ("rerank", RANKED, "  dialect: vllm\n  cache: bypassed\n", "single requests"),
    "embeds as messages": ("embed", LENGTHS.split("\n")[0] + "\n", "  endpoint: messages\n", "form of task generate"),
    "bypassed messages": ("generate", LENGTHS, "  dialect: vllm\n  endpoint: messages\n  cache: bypassed\n", "avoided"),
    "form of answers": ("generate", LENGTHS + "  answers: {form: json}\n", "  endpoint: responses\n", "endpoint chat"),
    "a path that is none": ("rerank", RANKED, "  path: rerank?x=1\n", "path"),
    "turns of Responses": ("generate", LENGTHS, "  endpoint: responses\n  turns: 2\n", "need endpoint chat"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_asked_is_refused_in_a_line(name: str) -> None:
    task, workload, engine, words = REFUSED[name]
    model = f"workload:\n  task: {task}\n  model: {{source: served, name: m}}\n  precisions: [fp32]\n"
    with pytest.raises(BadInput, match=words):
        parse_contract(f"{HEAD}{model}{workload}engine:\n  name: openai\n  url: http://127.0.0.1:1/v1\n{engine}")


def test_an_engine_in_process_neither_ranks_nor_transcribes() -> None:
    model = "workload:\n  task: rerank\n  model: {source: preset, name: bert-base}\n  precisions: [fp32]\n"
    with pytest.raises(BadInput, match="asked of a server"):
        parse_contract(f"{HEAD}{model}{RANKED}engine:\n  name: torch\n")
