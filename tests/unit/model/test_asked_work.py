"""What a contract may ask of production's work: sound combinations, and one line for each that is not."""

from __future__ import annotations

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.contract.writer import Marked, render_contract
from lynxbench.errors import BadFile
from served import served_contract

LENGTHS = "  input_tokens: {distribution: fixed, value: 10}\n"
OUTPUT = "  output_tokens: {distribution: fixed, value: 4}\n"
PROMPTS = "  prompts: {file: p.jsonl, form: jsonl}\n"
SESSIONS = "  prompts: {file: s.jsonl, form: sessions}\n"


def text_of(workload: str = "", engine: str = "", lengths: bool = True, **changes) -> str:
    text = served_contract("http://127.0.0.1:9/v1", engine=engine, **changes)
    text = text if lengths else text.replace(LENGTHS, "").replace(OUTPUT, "")
    return text.replace("engine:\n", f"{workload}engine:\n", 1)


def test_nothing_new_is_in_the_canonical_form_of_a_contract_that_says_nothing_new():
    canonical = parse_contract(text_of()).canonical()
    assert not {"prompts", "models", "cancel", "answers"} & set(canonical["workload"])
    assert "prefix" not in canonical["engine"]


def test_a_contract_that_says_everything_reads_back_as_itself():
    workload = PROMPTS.replace("}", f", sha256: {'ab' * 32}, keep_text: true}}")
    workload += "  models: [{name: ground-truth, share: 75 %}, {name: lora, share: 25 %}]\n"
    workload += "  cancel: {share: 5 %, after: 2 s}\n  answers: {form: tools, file: t.json}\n"
    contract = parse_contract(text_of(workload, "prefix: {reset: true}", lengths=False))
    assert parse_contract(render_contract(contract, Marked())).contract_id == contract.contract_id
    assert contract.workload.cancel.after_s == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (text_of(PROMPTS), "has no effect: the prompts have their own lengths"),
        (text_of(PROMPTS, "turns: 2", lengths=False), "turns: 1"),
        (text_of(PROMPTS, lengths=False, arrival="{process: replay, path: p.jsonl}"), "sessions from the file"),
        (text_of(SESSIONS, lengths=False, arrival="{process: replay, path: o.jsonl}"), "name that file"),
        (text_of(SESSIONS, lengths=False, arrival="{process: saturating}"), "wait for each other"),
        (text_of(engine="cache: traced"), "traced needs a trace"),
        (text_of(engine="cache: shared"), "go together"),
        (text_of(engine="prefix: {share: 20 %}"), "go together"),
        (text_of(PROMPTS, "cache: shared\nprefix: {share: 20 %}", lengths=False), "not for a file's"),
        (text_of("  models: [{name: ground-truth, share: 50 %}, {name: b, share: 40 %}]\n"), "not to 100 %"),
        (text_of("  models: [{name: a, share: 50 %}, {name: b, share: 50 %}]\n"), "is not among them"),
        (text_of("  models: [{name: a, share: 50 %}, {name: a, share: 50 %}]\n"), "twice"),
        (
            text_of("  models: [{name: ground-truth, share: 50 %}, {name: b, share: 50 %}]\n", "turns: 2"),
            "say turns: 1",
        ),
        (text_of("  cancel: {share: 5 %}\n"), "one of them"),
        (text_of("  answers: {form: tools}\n"), "give the file"),
    ],
)
def test_what_does_not_go_together_is_said(text: str, says: str):
    with pytest.raises(BadFile, match=says):
        parse_contract(text)
