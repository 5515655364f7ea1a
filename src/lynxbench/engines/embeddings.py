"""How answers with embeddings are read: a vector for every text that was asked about, or the answer is none."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lynxbench.engines.openai import OpenAiReader
from lynxbench.load.response_reading import FAILED, NOTHING, OUTPUT

_NOTHING_IN_IT = (b"", b"null")


class _Vector(msgspec.Struct, gc=False):
    embedding: msgspec.Raw = msgspec.Raw(b"null")
    """Numbers, or their bytes in base64; not decoded."""


class _Answer(msgspec.Struct, gc=False):
    data: list[_Vector | None]


_decode: Callable[[bytes], _Answer] = msgspec.json.Decoder(_Answer).decode


class EmbeddingsReader(OpenAiReader):
    """Reads one connection's answers; how many texts every request has is known."""

    __slots__ = ("_texts_asked",)

    def __init__(self, texts: int) -> None:
        self._texts_asked = texts
        super().__init__(False)

    def body(self, data: bytes, inference_header_bytes: int = -1) -> int:
        """One answer."""
        what = super().body(data)
        if what != OUTPUT:
            return what
        vectors = sum(vector is not None and _is_full(vector.embedding) for vector in _decode(data).data)
        if vectors == self._texts_asked:
            return OUTPUT
        if vectors == 0:
            return NOTHING
        self.failure = f"{vectors} vectors, where {self._texts_asked} were asked for"
        return FAILED


def _is_full(embedding: msgspec.Raw) -> bool:
    written = memoryview(embedding)
    return len(written) > len(b"[ 0 ]") or written.tobytes().strip(b' \t\r\n[]"') not in _NOTHING_IN_IT


class EmbeddingsLanguage:
    """What makes readers for the driver; `texts` are in every request."""

    def __init__(self, texts: int) -> None:
        self._texts = texts

    def reader(self, keep_text: bool) -> EmbeddingsReader:
        """A reader for one connection."""
        return EmbeddingsReader(self._texts)
