"""Labelled prompts from a file of the user: one JSON object a line, as people keep evaluation sets.

{"prompt": "2 + 2 =", "answer": "4"}
{"messages": [{"role": "user", "content": "…"}], "answer": ["yes", "true"]}
{"prompt": "Which is a mammal?", "choices": ["trout", "lynx"], "answer": 1}
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import cast

from pydantic import JsonValue

from lynxbench.errors import BadFile
from lynxbench.model.accuracy_asked import LabelledTask, ScorerName
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json
from lynxbench.plain_files import open_given
from lynxbench.reading import read_text

LARGEST_TASK_BYTES = 64 << 20
MOST_CHOICES = len(ascii_uppercase)
ASK_FOR_LETTER = "Answer with the letter of the right choice only."
_FORM = 'write {"prompt": "…", "answer": "…"}'


@dataclass(frozen=True, slots=True)
class LabelledPrompt:
    """One question with the answers that are right; of a choice, the place of the right one."""

    prompt: str
    messages: tuple[dict[str, str], ...]
    """A chat that ends with the question; empty where the prompt is text."""
    answers: tuple[str, ...]
    choices: tuple[str, ...]
    right: int
    """Place among the choices; -1 where there are none."""
    row: Mapping[str, JsonValue]
    """The whole line, for a scorer of the user's own."""

    def lettered(self) -> "LabelledPrompt":
        """The same question with its choices written below it, a letter each, and the request for a letter."""
        lines = [f"{ascii_uppercase[place]}. {choice}" for place, choice in enumerate(self.choices)]
        below = "\n" + "\n".join((*lines, ASK_FOR_LETTER))
        if not self.messages:
            return LabelledPrompt(
                f"{self.prompt}{below}\nAnswer:", (), self.answers, self.choices, self.right, self.row
            )
        *before, last = self.messages
        asked = (*before, {**last, "content": last["content"] + below})
        return LabelledPrompt(self.prompt, asked, self.answers, self.choices, self.right, self.row)


@dataclass(frozen=True, slots=True)
class TaskFile:
    """The questions of a file, and its hash."""

    prompts: tuple[LabelledPrompt, ...]
    sha256: str


def read_task(task: LabelledTask) -> TaskFile:
    """The questions a contract names; BadFile with the line that is wrong."""
    text = read_text(task.file, "a task file of labelled prompts", largest_bytes=LARGEST_TASK_BYTES)
    with open_given(Path(task.file)) as stream:
        sha256 = hashlib.sha256(stream.read()).hexdigest()
    if task.sha256 is not None and sha256 != task.sha256:
        raise BadFile(f"has sha256 {sha256[:12]}…, the contract pins {task.sha256[:12]}…", file=task.file)
    prompts = parse_task(text, task.file, needs_choices=task.scorer == ScorerName.CHOICE)
    return TaskFile(prompts[: task.most], sha256)


def parse_task(text: str, file: str, *, needs_choices: bool) -> tuple[LabelledPrompt, ...]:
    """The questions of a file's text."""
    prompts = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = parse_strict_json(line)
        except NotStrictJson as error:
            raise BadFile(f"{error}; {_FORM}", file=file, line=number) from None
        try:
            prompts.append(_labelled(cast(JsonValue, row), needs_choices))
        except ValueError as error:
            raise BadFile(str(error), file=file, line=number) from None
    if not prompts:
        raise BadFile(f"holds no question; {_FORM}, one a line", file=file)
    return tuple(prompts)


def _labelled(row: JsonValue, needs_choices: bool) -> LabelledPrompt:
    if not isinstance(row, dict):
        raise ValueError(f"is not an object; {_FORM}")
    prompt, messages = row.get("prompt"), row.get("messages")
    if (prompt is None) == (messages is None):
        raise ValueError("needs either prompt (text) or messages (a chat), not both")
    if prompt is not None and (not isinstance(prompt, str) or not prompt.strip()):
        raise ValueError("prompt must be text that is not empty")
    listed = row.get("choices", [])
    if not isinstance(listed, list) or not all(isinstance(choice, str) and choice.strip() for choice in listed):
        raise ValueError('choices must be a list of texts, such as ["trout", "lynx"]')
    choices = tuple(str(choice) for choice in listed)
    if needs_choices and not 2 <= len(choices) <= MOST_CHOICES:
        raise ValueError(f"scorer choice needs 2 to {MOST_CHOICES} choices, here are {len(choices)}")
    answers = _answers(row.get("answer"))
    return LabelledPrompt(
        prompt=prompt if isinstance(prompt, str) else "",
        messages=() if messages is None else _chat(messages),
        answers=answers,
        choices=choices,
        right=_place(row.get("answer"), choices) if needs_choices else -1,
        row=row,
    )


def _chat(messages: JsonValue) -> tuple[dict[str, str], ...]:
    turns = messages if isinstance(messages, list) else []
    chat = []
    for turn in turns:
        role, content = (turn.get("role"), turn.get("content")) if isinstance(turn, dict) else (None, None)
        if not isinstance(role, str) or not isinstance(content, str):
            raise ValueError('messages must be a list of {"role": "user", "content": "…"}')
        chat.append({"role": role, "content": content})
    if not chat:
        raise ValueError("messages must hold at least one turn")
    return tuple(chat)


def _answers(answer: JsonValue) -> tuple[str, ...]:
    listed = answer if isinstance(answer, list) else [answer]
    if not listed or any(isinstance(one, (dict, list, bool)) or one is None for one in listed):
        raise ValueError("answer must be a text, a number, or a list of those that are right")
    return tuple(str(one) for one in listed)


def _place(answer: JsonValue, choices: tuple[str, ...]) -> int:
    """The right choice, named by its place (from 0), its text or its letter."""
    if isinstance(answer, int) and not isinstance(answer, bool):
        if 0 <= answer < len(choices):
            return answer
        raise ValueError(f"answer {answer} is no place among {len(choices)} choices; the first is 0")
    if isinstance(answer, str):
        if answer in choices:
            return choices.index(answer)
        letter = answer.strip().upper()
        if len(letter) == 1 and letter in ascii_uppercase[: len(choices)]:
            return ascii_uppercase.index(letter)
    raise ValueError("answer must name one of the choices: its place from 0, its text or its letter")
