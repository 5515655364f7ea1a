"""What the usage of an OpenAI-style answer counts: tokens in and out, those from a cache, those of reasoning."""

from __future__ import annotations

import msgspec

from lynxbench.load.response_reading import MOST_TOKENS, UNKNOWN_TOKENS, ResponseReader


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _AnswerDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """The counts of one answer, as far as a server gives them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _AnswerDetails | None = None


def count_usage(reader: ResponseReader, usage: Usage) -> None:
    """Take the counts over. Servers that send usage with every event send running totals, so the last one stands."""
    if usage.completion_tokens is not None:
        reader.output_tokens = _known(usage.completion_tokens)
    if usage.prompt_tokens is not None:
        reader.input_tokens = _known(usage.prompt_tokens)
    details = usage.prompt_tokens_details
    if details is not None and details.cached_tokens is not None:
        reader.cached_tokens = _known(details.cached_tokens)
        if reader.cached_tokens > reader.input_tokens:  # no more can come from a cache than was read
            reader.cached_tokens = UNKNOWN_TOKENS
    said = usage.completion_tokens_details
    if said is not None and said.reasoning_tokens is not None:
        reader.reasoning_tokens = _known(said.reasoning_tokens)


def _known(tokens: int) -> int:
    """One that no answer can have is unknown."""
    return tokens if 0 <= tokens <= MOST_TOKENS else UNKNOWN_TOKENS
