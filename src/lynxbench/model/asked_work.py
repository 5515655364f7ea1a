"""What production asks beyond lengths and arrivals: prompts of one's own, prefixes in common, models side by side."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from lynxbench.model.document import Document
from lynxbench.model.fields import Count, Ratio, Seconds, Sha256, Text, refuse

TRACE_BLOCK, CACHE_BLOCK = 512, 16
"""Tokens of a block: as public traces hash them (Mooncake), and as vLLM's prefix cache keeps them."""


class PromptForm(StrEnum):
    """How a file of prompts is written."""

    JSONL = "jsonl"
    """An object a line: `prompt` (text) or `messages` (a chat), and `output_tokens` where it is known."""
    SHAREGPT = "sharegpt"
    """A JSON array of conversations; every turn of a person is a request that carries what was said before it."""
    LINES = "lines"
    """Plain text, a prompt a line."""
    PARAGRAPHS = "paragraphs"
    """Plain text, a prompt a paragraph."""
    SESSIONS = "sessions"
    """An object a line for each call: its session, the calls that it waits for, the gap after them, its lengths."""


class PromptFile(Document):
    """Prompts of one's own, sent as they are written; their text is in no file of the evidence."""

    file: Text
    form: PromptForm
    sha256: Annotated[Sha256 | None, Field(exclude_if=lambda sha256: sha256 is None)] = None
    keep_text: Annotated[bool, Field(exclude_if=lambda keep_text: not keep_text)] = False
    """What failing answers say may quote a prompt; it is kept where this is asked for."""


class SharedPrefix(Document):
    """What prompts have in common at their beginning, and whether the server's cache is emptied between runs."""

    share: Annotated[Annotated[Ratio, Field(gt=0, lt=1)] | None, Field(exclude_if=lambda share: share is None)] = None
    prefixes: Annotated[Count, Field(exclude_if=lambda prefixes: prefixes == 1)] = 1
    block: Annotated[Count | None, Field(exclude_if=lambda block: block is None)] = None
    reset: Annotated[bool, Field(exclude_if=lambda reset: not reset)] = False


class ModelShare(Document):
    """One of several models or adapters behind the same address, and its share of the requests."""

    name: Text
    share: Annotated[Ratio, Field(gt=0, lt=1)]


class Cancelling(Document):
    """Requests that the client itself gives up: people who leave, agents that have seen enough."""

    share: Annotated[Ratio, Field(gt=0, le=1)]
    after_events: Annotated[Count | None, Field(exclude_if=lambda after: after is None)] = None
    after_s: Annotated[
        Annotated[Seconds, Field(gt=0, lt=1e6)] | None, Field(alias="after", exclude_if=lambda after: after is None)
    ] = None

    @model_validator(mode="after")
    def _one_moment(self) -> Cancelling:
        if (self.after_events is None) == (self.after_s is None):
            refuse("say when: after_events (so many pieces of output) or after (so long), one of them", "after")
        return self


class CheckedAnswers(Document):
    """What answers must be, asked of the server and counted afterwards: JSON, JSON of a schema, calls of tools."""

    form: Literal["json", "tools"]
    file: Annotated[Text | None, Field(exclude_if=lambda file: file is None)] = None
    sha256: Annotated[Sha256 | None, Field(exclude_if=lambda sha256: sha256 is None)] = None

    @model_validator(mode="after")
    def _tools_are_named(self) -> CheckedAnswers:
        if self.form == "tools" and self.file is None:
            refuse("tools are called by name: give the file that lists them, as a request carries them", "file")
        return self


def refuse_mix(models: tuple[ModelShare, ...], asked_first: str) -> None:
    """Shares make a whole, each name stands once, and the workload's own model is among them."""
    names = [model.name for model in models]
    if len(set(names)) != len(names):
        refuse("names one model twice; list each once", "models")
    if abs(sum(model.share for model in models) - 1) > 1e-9:
        refuse(f"shares add up to {sum(model.share for model in models):.6g}, not to 100 %", "models")
    if asked_first not in names:
        refuse(f"the workload's model {asked_first!r} is not among them; it is the one that is asked first", "models")
