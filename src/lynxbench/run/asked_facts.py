"""What a client knows of its own work beside the requests: expected cache hits, forms of answers, what to withhold."""

from collections import Counter
from dataclasses import replace

import numpy as np

from lynxbench.engines.cache_reset import reset_cache
from lynxbench.engines.served import Exchange
from lynxbench.load.answer_likeness import alike_answers
from lynxbench.load.load_record import LoadRecord, RequestEnd
from lynxbench.model.contract import Contract
from lynxbench.model.load_figures import AlikeAnswers, AnswerFigures, ExpectedCache
from lynxbench.model.serving import OpenAiEngine

WITHHELD = "(withheld: it may quote a prompt; workload.prompts.keep_text keeps it)"


def without_texts(record: LoadRecord, contract: Contract) -> LoadRecord:
    """The record as evidence keeps it: no answers, and nothing that a server said back of prompts of one's own."""
    record = replace(record, said=record.said[:0])
    prompts = contract.workload.prompts
    if prompts is None or prompts.keep_text:
        return replace(record, texts=())
    notes = Counter[str]()
    for text, count in record.notes.items():
        notes[_withheld(text)] += count
    return replace(record, texts=(), notes=dict(notes))


def _withheld(text: str) -> str:
    """How it ended, without what was said."""
    kind, colon, _ = text.partition(":")
    told = kind.isdigit() or kind in ("stream error", "malformed")
    return f"{kind}: {WITHHELD}" if colon and told else text


def expected_cache(record: LoadRecord, exchange: Exchange) -> ExpectedCache | None:
    """What a cache without end would have held of the answered requests, in the order of sending."""
    if exchange.shared is None:
        return None
    rows = np.flatnonzero(record.kind == RequestEnd.OK)
    rows = rows[np.argsort(record.sent_ns[rows], kind="stable")]
    rounds = record.number[rows] // max(1, len(exchange.calls_before) - 1 if exchange.calls_before else exchange.size)
    places = exchange.place_of(record.number[rows], record.turn[rows])
    share = exchange.shared.expected(
        places.tolist(), rounds.tolist(), record.sent_ns[rows].tolist(), record.first_token_ns[rows].tolist()
    )
    if share is None:
        return None
    return ExpectedCache(
        share=share.share,
        in_flight_share=share.in_flight,
        input_tokens=share.input_tokens,
        distinct_tokens=share.distinct_tokens,
        block=exchange.shared.block,
    )


def checked_answers(record: LoadRecord, exchange: Exchange) -> AnswerFigures | None:
    """Whether the answers are of the form that was asked for."""
    if exchange.check is None or len(record.texts) != len(record):
        return None
    return exchange.check.figures(record.texts[row] for row in np.flatnonzero(record.kind == RequestEnd.OK))


def answers_alike(record: LoadRecord, exchange: Exchange, contract: Contract) -> AlikeAnswers | None:
    """Of different prompts, how many had the same answer; of answers of a form, which may well be alike, nothing."""
    if exchange.check is not None or not exchange.has_tokens:
        return None
    made_up = contract.workload.prompts is None
    prompts = contract.engine.prompts if made_up and isinstance(contract.engine, OpenAiEngine) else exchange.size

    def prompt_of(number: int) -> int:
        # Letters that make a prompt unique are no other question, nor is the same beginning to another length.
        return int(exchange.place_of(np.array([number]), np.zeros(1, dtype=np.int64))[0]) % max(1, prompts)

    return alike_answers(record.said, prompt_of)


class CacheResets:
    """Empties the server's cache where the contract asks for it, and says how that went."""

    def __init__(self, contract: Contract) -> None:
        engine = contract.engine
        self._engine = engine if isinstance(engine, OpenAiEngine) and engine.prefix and engine.prefix.reset else None
        self._done, self._problem = 0, ""

    def reset(self) -> None:
        """Once more."""
        if self._engine is not None:
            problem = reset_cache(self._engine)
            self._done += not problem
            self._problem = self._problem or problem

    @property
    def words(self) -> str:
        """How often it was emptied, or why it was not; empty where nobody asked for it."""
        if self._engine is None:
            return ""
        return f"not emptied: {self._problem}" if self._problem else f"emptied {self._done} times"
