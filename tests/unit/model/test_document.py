"""What every document is, also when its first use comes from several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from pydantic import ValidationError

from lynxbench.model.document import Document

THREADS = 8


def fresh_documents() -> tuple[type[Document], type[Document]]:
    """A document and one that holds it, neither of them built yet."""

    class Inner(Document):
        number: int

    class Outer(Document):
        inner: Inner
        words: tuple[str, ...] = ()

    assert not Outer.__pydantic_complete__
    return Inner, Outer


def test_a_document_is_built_once_whoever_asks_first() -> None:
    for _ in range(20):
        inner, outer = fresh_documents()
        begin = Barrier(THREADS)

        def use(
            number: int, inner: type[Document] = inner, outer: type[Document] = outer, begin: Barrier = begin
        ) -> str:
            begin.wait()
            return outer(inner=inner(number=number)).model_dump_json()

        with ThreadPoolExecutor(THREADS) as pool:
            texts = list(pool.map(use, range(THREADS)))
        assert texts == [f'{{"inner":{{"number":{number}}},"words":[]}}' for number in range(THREADS)]


def test_a_document_refuses_what_it_does_not_know() -> None:
    inner, outer = fresh_documents()
    with pytest.raises(ValidationError):
        outer.model_validate_json('{"inner": {"number": 1}, "more": 2}')
    with pytest.raises(ValidationError):
        inner.model_validate({"number": "1"})
