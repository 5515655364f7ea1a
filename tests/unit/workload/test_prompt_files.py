"""Prompts from files of one's own: every form, the hash of what was read, and no word of a prompt in what is said."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.model.asked_work import PromptForm
from lynxbench.workload.prompt_files import WrittenPrompt, parse_prompts, read_prompt_file

CANARY = "xylograph"
SHAREGPT = [
    {
        "id": "1",
        "conversations": [
            {"from": "system", "value": "Be brief."},
            {"from": "human", "value": "One?"},
            {"from": "gpt", "value": "Yes, one."},
            {"from": "human", "value": "Two?"},
            {"from": "gpt", "value": "Two."},
        ],
    },
    {"conversations": [{"from": "gpt", "value": "Hello."}, {"from": "human", "value": "Unanswered?"}]},
    {"conversations": []},
]


def test_json_lines_hold_texts_or_chats_with_their_lengths():
    rows = [
        {"prompt": "A text."},
        {"messages": [{"role": "user", "content": "Hi"}], "output_tokens": 7},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
    ]
    text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
    first, second, third = parse_prompts(text, PromptForm.JSONL)
    assert first == WrittenPrompt("A text.")
    assert second.prompt == ({"role": "user", "content": "Hi"},)
    assert second.output_tokens == 7
    assert third.prompt[0]["content"][0]["type"] == "image_url"


def test_a_line_separator_inside_a_text_ends_no_line():
    text = json.dumps({"prompt": "one\u2028two"}, ensure_ascii=False)
    assert [prompt.prompt for prompt in parse_prompts(text, PromptForm.JSONL)] == ["one\u2028two"]


def test_every_turn_of_a_person_is_a_request_with_what_was_said_before_it():
    one, two, three = parse_prompts(json.dumps(SHAREGPT), PromptForm.SHAREGPT)
    assert [message["role"] for message in one.prompt] == ["system", "user"]
    assert one.answer == "Yes, one."
    assert [message["role"] for message in two.prompt] == ["system", "user", "assistant", "user"]
    assert two.prompt[:2] == one.prompt
    assert two.answer == "Two."
    assert [message["content"] for message in three.prompt] == ["Hello.", "Unanswered?"]
    assert three.answer is None


def test_plain_text_is_cut_by_line_or_by_paragraph():
    text = "one\ntwo \r\n\r\n \nthree\n"
    assert [prompt.prompt for prompt in parse_prompts(text, PromptForm.LINES)] == ["one", "two", "three"]
    assert [prompt.prompt for prompt in parse_prompts(text, PromptForm.PARAGRAPHS)] == ["one\ntwo", "three"]


def test_the_file_is_told_by_its_hash_and_another_one_is_refused(tmp_path: Path):
    data = gzip.compress(b"one\ntwo\n")
    (tmp_path / "p.txt.gz").write_bytes(data)
    path, digest = str(tmp_path / "p.txt.gz"), hashlib.sha256(data).hexdigest()
    source = read_prompt_file(path, PromptForm.LINES, digest).source
    assert (source.file, source.sha256, source.size_bytes, source.rows) == ("p.txt.gz", digest, len(data), 2)
    with pytest.raises(BadInput, match=f"{digest[:12]}.*agreed on {'0' * 12}"):
        read_prompt_file(path, PromptForm.LINES, "0" * 64)


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        (PromptForm.JSONL, f'{{"prompt": "{CANARY}"', ":1: is not JSON"),
        (PromptForm.JSONL, f'{{"prompt": "{CANARY} \\ud800"}}', ":1: is not JSON"),
        (PromptForm.JSONL, f'{{"prompt": "{CANARY}", "output_tokens": {"9" * 5000}}}', ":1: is not JSON"),
        (PromptForm.SHAREGPT, f'["{CANARY}", {"9" * 5000}]', "is not JSON"),
        (PromptForm.JSONL, f'\n["{CANARY}"]', ":2: is no JSON object"),
        (PromptForm.JSONL, f'{{"text": "{CANARY}"}}', "neither `prompt` nor `messages`"),
        (PromptForm.JSONL, f'{{"prompt": "{CANARY}", "messages": []}}', "one of them is sent"),
        (PromptForm.JSONL, f'{{"messages": ["{CANARY}"]}}', "a role and a content"),
        (PromptForm.JSONL, f'{{"prompt": "{CANARY}", "output_tokens": true}}', "whole number"),
        (PromptForm.JSONL, '{"prompt": ""}', "not empty"),
        (PromptForm.JSONL, "\n \n", "holds no prompt"),
        (PromptForm.SHAREGPT, f'{{"{CANARY}": 1}}', "no JSON array"),
        (PromptForm.SHAREGPT, f'["{CANARY}"]', "conversation 1 has no list"),
        (PromptForm.SHAREGPT, f'[{{"conversations": [{{"from": "{CANARY}", "value": ""}}]}}]', "a turn needs"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_never_by_text(tmp_path: Path, form: PromptForm, text: str, says: str):
    (tmp_path / "p").write_text(text)
    with pytest.raises(BadInput) as refused:
        read_prompt_file(str(tmp_path / "p"), form)
    assert says in str(refused.value)
    assert CANARY not in str(refused.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path):
    with pytest.raises(BadInput, match=r"no such file.*prompts"):
        read_prompt_file(str(tmp_path / "nothing"), PromptForm.LINES)
    with pytest.raises(BadInput, match="cannot be read"):
        read_prompt_file(str(tmp_path), PromptForm.LINES)
