"""Prompts that people have in files: JSON lines, ShareGPT conversations, plain text; with the hash of what was read.

A problem is told by file and line alone: the text of a prompt is quoted nowhere.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lynxbench.errors import BadInput
from lynxbench.model.asked_work import PromptForm
from lynxbench.model.load_figures import SourceFile
from lynxbench.plain_files import read_plain
from lynxbench.workload.log_rows import decoded_text

Messages = tuple[Mapping[str, Any], ...]
"""The turns of a chat as the server takes them; a content may have several parts, images and sound among them."""
LONGEST_OUTPUT = 1_000_000
_SPEAKERS = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
             "bing": "assistant", "bard": "assistant", "model": "assistant", "system": "system"}  # fmt: skip
"""ShareGPT's words for who speaks, and the protocol's."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n")


@dataclass(frozen=True, slots=True)
class WrittenPrompt:
    """One request as it is written."""

    prompt: str | Messages
    output_tokens: int | None = None
    answer: str | None = None
    """The answer that was recorded with it; its length is the one to ask for."""


@dataclass(frozen=True, slots=True)
class PromptSet:
    """The requests of a file, in its order, and which file that was."""

    prompts: tuple[WrittenPrompt, ...]
    source: SourceFile


def read_source(path: str, what: str, pinned: str | None) -> tuple[bytes, SourceFile]:
    """The bytes of a file that a contract names, with their hash; BadInput where it is not the one agreed on."""
    try:
        data = read_plain(Path(path))
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; the contract names it for its {what}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(data).hexdigest()
    if pinned is not None and digest != pinned:
        raise BadInput(f"{path}: its SHA-256 is {digest[:12]}…, the contract agreed on {pinned[:12]}…; another file")
    return data, SourceFile(what=what, file=Path(path).name, sha256=digest, size_bytes=len(data), rows=0)


def read_prompt_file(path: str, form: PromptForm, pinned: str | None = None) -> PromptSet:
    """Every request of a file of prompts."""
    data, source = read_source(path, "prompts", pinned)
    prompts = tuple(parse_prompts(decoded_text(data, path), form, path))
    if not prompts:
        raise BadInput(f"{path}: holds no prompt (form {form})")
    return PromptSet(prompts, source.model_copy(update={"rows": len(prompts)}))


def parse_prompts(text: str, form: PromptForm, source: str = "<prompts>") -> Iterator[WrittenPrompt]:
    """The requests of a text."""
    match form:
        case PromptForm.JSONL:
            for line, row in json_lines(text, source):
                yield _of_row(row, f"{source}:{line}")
        case PromptForm.SHAREGPT:
            yield from _of_conversations(text, source)
        case PromptForm.LINES:
            yield from (WrittenPrompt(line.strip()) for line in text.splitlines() if line.strip())
        case _:
            yield from (WrittenPrompt(part.strip()) for part in _PARAGRAPH.split(text) if part.strip())


def json_lines(text: str, source: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """One object a line, with its number; nothing of a line that cannot be read is said."""
    for line, record in enumerate(text.split("\n"), 1):
        if not record.strip():
            continue
        try:
            row = _loaded(record)
        except (ValueError, RecursionError):
            raise BadInput(f"{source}:{line}: is not JSON; one object a line is expected") from None
        if not isinstance(row, dict):
            raise BadInput(f"{source}:{line}: is no JSON object; one object a line is expected")
        yield line, row


def _loaded(text: str) -> Any:
    """A JSON document that can be sent on; ValueError for one with half a character, which no encoding can write."""
    document = json.loads(text)
    if _SURROGATE.search(text):
        json.dumps(document, ensure_ascii=False).encode()
    return document


def prompt_in(row: Mapping[str, Any], where: str) -> str | Messages | None:
    """What an object asks: its `prompt` or its `messages`; None where it has neither."""
    prompt, messages = row.get("prompt"), row.get("messages")
    if prompt is not None and messages is not None:
        raise BadInput(f"{where}: has a prompt and messages; one of them is sent")
    if prompt is not None:
        if not isinstance(prompt, str) or not prompt:
            raise BadInput(f"{where}: prompt must be a text that is not empty")
        return prompt
    if messages is None:
        return None
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise BadInput(f"{where}: messages must be objects with a role and a content")
    return tuple(messages)


def tokens_in(row: Mapping[str, Any], name: str, where: str) -> int | None:
    """A number of tokens; None where there is none."""
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LONGEST_OUTPUT:
        raise BadInput(f"{where}: {name} must be a whole number from 1 to {LONGEST_OUTPUT:,}")
    return value


def _of_row(row: Mapping[str, Any], where: str) -> WrittenPrompt:
    prompt = prompt_in(row, where)
    if prompt is None:
        raise BadInput(f"{where}: has neither `prompt` nor `messages`")
    return WrittenPrompt(prompt, tokens_in(row, "output_tokens", where))


def _is_message(message: object) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    content = message.get("content")
    return isinstance(content, str) or (isinstance(content, list) and all(isinstance(part, dict) for part in content))


def _of_conversations(text: str, source: str) -> Iterator[WrittenPrompt]:
    """A request for each turn of a person, with the recorded turns before it; what follows it is the answer."""
    try:
        conversations = _loaded(text)
    except (ValueError, RecursionError):
        raise BadInput(f"{source}: is not JSON; ShareGPT is one array of conversations") from None
    if not isinstance(conversations, list):
        raise BadInput(f"{source}: is no JSON array; ShareGPT is one array of conversations")
    for place, conversation in enumerate(conversations, 1):
        where = f"{source}: conversation {place}"
        turns = conversation.get("conversations") if isinstance(conversation, dict) else None
        if not isinstance(turns, list):
            raise BadInput(f"{where} has no list `conversations`")
        said: list[dict[str, str]] = []
        for turn in turns:
            speaker = _SPEAKERS.get(str(turn.get("from")).lower()) if isinstance(turn, dict) else None
            if speaker is None or not isinstance(turn.get("value"), str):
                raise BadInput(f"{where}: a turn needs `from` (human, gpt or system) and a text `value`")
            if speaker == "assistant" and said and said[-1]["role"] == "user":
                yield WrittenPrompt(tuple(said), answer=turn["value"] or None)
            said = [*said, {"role": speaker, "content": turn["value"]}]
        if said and said[-1]["role"] == "user":
            yield WrittenPrompt(tuple(said))
