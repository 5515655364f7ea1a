"""Reranking: a query and documents in, a score for each document out. What is counted is documents.

Two forms of answers are known: `{"results": [{"index", "relevance_score"}]}` (Jina, Cohere, vLLM, llama.cpp) and a bare
list `[{"index", "score"}]` (Text Embeddings Inference). An answer counts only where it scores what was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from lynxbench.engines.plain_reader import PlainReader, TokenNumber
from lynxbench.load.response_reading import OUTPUT


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: TokenNumber | None = None
    total_tokens: TokenNumber | None = None


class _Result(msgspec.Struct, gc=False):
    index: int
    relevance_score: float | None = None
    score: float | None = None


class _Answer(msgspec.Struct, gc=False):
    results: list[_Result] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_list = msgspec.json.Decoder(list[_Result]).decode


def rerank_fields(query: str, documents: Sequence[str], *, as_texts: bool) -> dict[str, object]:
    """A request's fields; `as_texts` in the words of Text Embeddings Inference."""
    return {"query": query, "texts" if as_texts else "documents": list(documents)}


class RerankReader(PlainReader):
    """Reads one connection's answers; the documents of each arrival are known."""

    __slots__ = ("_documents", "_most")

    def __init__(self, documents: Sequence[int], most: int | None) -> None:
        self._documents, self._most = documents, most
        super().__init__()

    def event(self, data: bytes) -> int:
        """The form does not stream; an event is read as a whole answer."""
        return self.body(data)

    def body(self, data: bytes, inference_header_bytes: int = -1) -> int:
        """One answer."""
        self.finished = True
        is_list = data.lstrip()[:1] == b"["
        answer = _Answer(results=_decode_list(data)) if is_list else _decode_answer(data)
        if answer.error is not None:
            return self.fail(answer.error)
        if answer.results is None:
            raise ValueError("an answer without results")
        asked = self._documents[self.number % len(self._documents)]
        wanted = asked if self._most is None else min(asked, self._most)
        if len(answer.results) != wanted:
            return self.fail(f"{len(answer.results)} results, where {wanted} were asked for")
        places = {result.index for result in answer.results}
        if len(places) != wanted or min(places) < 0 or max(places) >= asked:
            return self.fail("its indexes are not those of the documents")
        for result in answer.results:
            score = result.relevance_score if result.score is None else result.score
            if score is None or not math.isfinite(score):
                return self.fail(f"document {result.index} has no score")
        if answer.usage is not None:
            tokens = answer.usage.prompt_tokens
            tokens = answer.usage.total_tokens if tokens is None else tokens
            if tokens is not None:
                self.input_tokens = tokens
        self.output_tokens, self.answering = asked, True
        return OUTPUT


class RerankLanguage:
    """What makes readers for the driver; `documents` of each prepared request, in turn."""

    def __init__(self, documents: Sequence[int], most: int | None = None) -> None:
        """`most` results are asked for where the contract's own fields say so (`top_n`)."""
        self._documents, self._most = tuple(documents), most

    def reader(self, keep_text: bool) -> RerankReader:
        """A reader for one connection."""
        return RerankReader(self._documents, self._most)
