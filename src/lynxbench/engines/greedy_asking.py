"""Questions to a server whose answers are looked at: greedy, whole, with log-probabilities where the server gives them.

Servers write log-probabilities in three ways: as a list of tokens (chat; llama.cpp also for plain completions), as
columns (plain completions of OpenAI and vLLM), and as llama.cpp's own `completion_probabilities`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from lynxbench.engines import openai
from lynxbench.engines.asking import ask
from lynxbench.errors import CannotRun
from lynxbench.model.dialect import Dialect
from lynxbench.model.serving import OpenAiEngine

AT_A_TIME = 8
"""Questions in flight: a small batch, so that the server's batching is part of its noise and a set is asked quickly."""
SEED = 1
TOP_TOKENS = 5
"""The most that the plain endpoint of the protocol gives."""
TOP_LETTERS = 20
"""The most that the chat endpoint gives: a letter that is not among them has next to no probability."""

Prompt = str | Sequence[dict[str, str]]
T = TypeVar("T")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class AnswerToken:
    """One token of an answer: what it is, how likely it was, and what else was likely."""

    identity: str
    logprob: float
    top: dict[str, float]
    """Likeliest tokens by their text, with theirs."""

    @property
    def margin(self) -> float:
        """By how much the likeliest led the second; NaN where only one is known."""
        first = sorted(self.top.values(), reverse=True)[:2]
        return first[0] - first[1] if len(first) == 2 else math.nan


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
    """A whole answer; tokens are empty where the server tells of none."""

    text: str = ""
    tokens: tuple[AnswerToken, ...] = ()
    failed: str = ""


class Questioner:
    """Asks one server of a contract, outside of its load."""

    def __init__(self, engine: OpenAiEngine, service: openai.Service) -> None:
        """Greedy whatever the contract's own request fields say, and never streamed."""
        self._engine = engine
        kept = {name: value for name, value in service.extra.items() if name not in SAMPLING}
        self.service = replace(service, stream=False, bypass_cache=False, extra=kept)

    def answer(self, prompt: Prompt, tokens: int, *, top: int = TOP_TOKENS, forced: bool = False) -> GreedyAnswer:
        """One greedy answer of at most so many tokens; exactly so many where that is forced and the server can."""
        chat = self.service.endpoint is openai.Endpoint.CHAT
        most = top if chat or self.service.dialect.forces_length else min(top, TOP_TOKENS)
        wanted: dict[str, object] = {"logprobs": True, "top_logprobs": most} if chat else {"logprobs": most}
        wanted |= {"seed": SEED, "max_tokens": tokens}
        if self.service.dialect is Dialect.VLLM:
            wanted["return_tokens_as_token_ids"] = forced  # two tokens of one text are told apart
        if self.service.dialect is Dialect.LLAMACPP:
            wanted |= {"n_probs": top, "cache_prompt": False}
        try:
            return read_answer(self._post(self.service, prompt, wanted, tokens if forced else None))
        except CannotRun as error:
            return GreedyAnswer(failed=str(error))

    def text_logprobs(self, text: str) -> list[tuple[str, float]] | None:
        """Every token of a text but the first with its log-probability; None where the server gives none of prompts."""
        plain = replace(self.service, endpoint=openai.Endpoint.COMPLETIONS)
        wanted: dict[str, object] = {"echo": True, "logprobs": 1, "max_tokens": 1, "seed": SEED}
        try:
            body = self._post(plain, text, wanted, None)
        except CannotRun:
            return None
        return read_echo(body)

    def _post(self, service: openai.Service, prompt: Prompt, wanted: dict[str, object], forced: int | None) -> Any:
        if service.endpoint is openai.Endpoint.COMPLETIONS and not isinstance(prompt, str):
            raise CannotRun("a chat is asked at the chat endpoint; set engine.endpoint: chat")
        asked = replace(service, extra={**service.extra, **wanted})
        prepared = openai.build_request(asked, openai.build_body(asked, prompt, forced))
        answer = ask(self._engine, prepared)
        try:
            return msgspec.json.decode(answer.body)
        except msgspec.DecodeError as error:
            raise CannotRun(f"{service.url}: the answer is not JSON: {error}") from None


SAMPLING = frozenset(
    {"temperature", "top_p", "top_k", "min_p", "n", "best_of", "seed", "presence_penalty", "frequency_penalty",
     "repetition_penalty", "repeat_penalty", "logit_bias", "mirostat", "stream", "max_tokens"}
)  # fmt: skip
"""Request fields of a contract that would make an answer something else than the likeliest tokens."""


def ask_all(work: Callable[[A], T], questions: Sequence[A], *, backwards: bool = False) -> list[T]:
    """Every question, a few at a time; backwards, so that each has other neighbours in the server's batches."""
    order = list(reversed(questions)) if backwards else list(questions)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        answers = list(pool.map(work, order))
    return answers[::-1] if backwards else answers


def prefix_hashes(pieces: Sequence[str], length: int) -> npt.NDArray[np.uint64]:
    """A hash of the answer up to each of its pieces, 0 after the last: whoever has them cannot read the answer off."""
    hashes = np.zeros(length, dtype=np.uint64)
    chain = hashlib.sha256(b"lynxbench greedy answer")
    for place, piece in enumerate(pieces[:length]):
        chain.update(len(piece.encode()).to_bytes(4, "big") + piece.encode())
        hashes[place] = max(1, int.from_bytes(chain.digest()[:8], "big"))
    return hashes


# --- reading ---------------------------------------------------------------------------------------------------------


def read_answer(body: Any) -> GreedyAnswer:
    """The first choice of a whole answer, in whichever way its server writes log-probabilities."""
    choice = _first(body.get("choices") if isinstance(body, dict) else None)
    if choice is None:
        said = str(body.get("error", "no choices in it"))[:200] if isinstance(body, dict) else "not an object"
        return GreedyAnswer(failed=f"the answer holds none: {said}")
    message = choice.get("message")
    if isinstance(message, dict):
        text = message.get("content") or message.get("reasoning_content") or message.get("reasoning") or ""
    else:
        text = choice.get("text") or ""
    given = choice.get("logprobs") or {}
    native = body.get("completion_probabilities") or choice.get("completion_probabilities")
    listed = given.get("content") or native
    tokens = _listed(listed) if isinstance(listed, list) else _columns(given)
    return GreedyAnswer(text=str(text), tokens=tokens)


def read_echo(body: Any) -> list[tuple[str, float]] | None:
    """The prompt's own tokens of an echoed answer; None where they are not all there."""
    choice = _first(body.get("choices") if isinstance(body, dict) else None)
    usage = body.get("usage") if isinstance(body, dict) else None
    given = (choice or {}).get("logprobs") or {}
    names, numbers = given.get("tokens"), given.get("token_logprobs")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if not isinstance(names, list) or not isinstance(numbers, list) or not isinstance(count, int):
        return None
    if not 2 <= count <= min(len(names), len(numbers)) or not all(map(_is_number, numbers[1:count])):
        return None
    return [(str(name), float(number)) for name, number in zip(names[1:count], numbers[1:count], strict=True)]


def _first(choices: object) -> dict[str, Any] | None:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _listed(items: list[Any]) -> tuple[AnswerToken, ...]:
    tokens = []
    for item in items:
        if not isinstance(item, dict) or not _is_number(item.get("logprob")):
            return ()
        tops = item.get("top_logprobs")
        top = {
            str(other.get("token")): float(other["logprob"])
            for other in (tops if isinstance(tops, list) else [])
            if isinstance(other, dict) and _is_number(other.get("logprob"))
        }
        name = item.get("id", item.get("bytes") or item.get("token"))
        tokens.append(AnswerToken(str(name), float(item["logprob"]), top))
    return tuple(tokens)


def _columns(given: dict[str, Any]) -> tuple[AnswerToken, ...]:
    names, numbers = given.get("tokens"), given.get("token_logprobs")
    if not isinstance(names, list) or not isinstance(numbers, list) or len(names) != len(numbers):
        return ()
    if not all(map(_is_number, numbers)):
        return ()
    tops = given.get("top_logprobs")
    rows = tops if isinstance(tops, list) and len(tops) == len(names) else [None] * len(names)
    return tuple(
        AnswerToken(
            str(name),
            float(number),
            {str(word): float(value) for word, value in (row or {}).items() if _is_number(value)},
        )
        for name, number, row in zip(names, numbers, rows, strict=True)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
