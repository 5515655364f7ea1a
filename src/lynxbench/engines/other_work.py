"""Work beside generation and embedding, as prepared requests: documents to rank, sound to write down."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from lynxbench.engines import openai
from lynxbench.engines.asking import Say, TokenCalibration, ask_for, silently
from lynxbench.engines.marked_requests import PLACE, PLACE_IN_JSON, MarkedRotation, mark
from lynxbench.engines.rerank import RerankLanguage, rerank_fields
from lynxbench.engines.served import USUAL_TOKENS_A_WORD, Exchange, load_counter, marked_request
from lynxbench.engines.transcription import BOUNDARY, SoundRotation, TranscriptLanguage, multipart
from lynxbench.load.response_reading import Language, PlainRotation, Script
from lynxbench.model.contract import Contract
from lynxbench.model.dialect import Dialect
from lynxbench.model.serving import CacheState, OpenAiEngine
from lynxbench.model.workload import Reranking, ServedModel, SpokenAudio
from lynxbench.workload.lengths import INPUT_STREAM, OUTPUT_STREAM, sample_length
from lynxbench.workload.texts import read_prompts

SHORT_WORDS, LONG_WORDS = 8, 72
"""Two documents whose difference tells the tokens of a word."""
TOP_N = ("top_n", "top_k")
"""Fields by which a reranker is asked for fewer results than documents."""


def build_other(
    contract: Contract, engine: OpenAiEngine, model: ServedModel, run: int, calibration: TokenCalibration | None
) -> Exchange:
    """The requests of a contract that ranks or transcribes."""
    asked = contract.workload.rerank
    if asked is not None:
        return _Ranking(contract, engine, model, asked).exchange(run, calibration)
    audio = contract.workload.audio
    assert audio is not None
    return _sounds(contract, engine, model, audio, run)


def ask_other(contract: Contract, engine: OpenAiEngine, model: ServedModel, say: Say = silently) -> TokenCalibration:
    """The first requests: CannotRun where they are not answered as the run's must be."""
    asked = contract.workload.rerank
    if asked is not None:
        return _Ranking(contract, engine, model, asked).calibrate(say)
    exchange = build_other(contract, engine, model, 0, None)
    ask_for(engine, exchange.script.first(0), exchange.language, say)
    return TokenCalibration(has_usage=False, tokens_a_word=0.0, overhead=0.0)


def _service(engine: OpenAiEngine, model: ServedModel, endpoint: openai.Endpoint) -> openai.Service:
    path = engine.path or ("/rerank" if engine.dialect is Dialect.TEI else None)
    return openai.Service(
        url=engine.url,
        model=model.name,
        endpoint=endpoint,
        dialect=engine.dialect,
        stream=False,
        api_key_env=engine.api_key_env,
        extra=dict(engine.request),
        path=path,
    )


class _Ranking:
    """A query and documents a request; the documents have the contract's lengths."""

    def __init__(self, contract: Contract, engine: OpenAiEngine, model: ServedModel, asked: Reranking) -> None:
        self._workload, self._engine, self._asked = contract.workload, engine, asked
        self._service = _service(engine, model, openai.Endpoint.RERANK)
        self._count = load_counter(model.tokenizer) if model.tokenizer else None
        self._words = read_prompts().split()

    def exchange(self, run: int, calibration: TokenCalibration | None) -> Exchange:
        """All of the requests, prepared."""
        known = calibration or self.calibrate()
        a_word = known.tokens_a_word or USUAL_TOKENS_A_WORD
        size, seed = self._engine.prompts, self._workload.seed
        counts = [
            sample_length(self._asked.documents, seed=seed, index=index, stream=OUTPUT_STREAM) for index in range(size)
        ]
        length, drawn = self._workload.input_tokens, 0
        assert length is not None
        avoids = self._engine.cache is CacheState.AVOIDED
        requests = []
        for index, count in enumerate(counts):
            documents = []
            for row in range(count):
                tokens = sample_length(length, seed=seed, index=drawn + row, stream=INPUT_STREAM)
                documents.append(self._text(tokens, a_word, 37 * index + 101 * row))
            drawn += count
            query = self._text(self._asked.query_tokens, a_word, 53 * index + 7)
            requests.append(self._request(f"{PLACE} {query}" if avoids else query, documents))
        script: Script = PlainRotation(tuple(requests))
        if avoids:
            script = MarkedRotation([tuple(request.split(PLACE_IN_JSON)) for request in requests], run)
        return Exchange(
            script=script,
            language=self._language(counts),
            unit="document",
            distinct_prompts=None if avoids else size,
            size=size,
            calibration=known,
        )

    def calibrate(self, say: Say = silently) -> TokenCalibration:
        """Ask twice, with one document of few and of many words."""
        seen = []
        for words in (SHORT_WORDS, LONG_WORDS):
            request = self._request("which of these is it", [" ".join(self._words[:words])])
            seen.append(ask_for(self._engine, request, self._language([1]), say).input_tokens)
        slope = max(0.0, (seen[1] - seen[0]) / (LONG_WORDS - SHORT_WORDS)) if min(seen) >= 0 else 0.0
        return TokenCalibration(has_usage=False, tokens_a_word=slope, overhead=0.0)

    def _language(self, counts: list[int]) -> Language:
        fewer = [value for name in TOP_N if isinstance(value := self._engine.request.get(name), int)]
        return RerankLanguage(counts, fewer[0] if fewer else None)

    def _request(self, query: str, documents: list[str]) -> bytes:
        fields = rerank_fields(query, documents, as_texts=self._engine.dialect is Dialect.TEI)
        body = msgspec.json.encode({"model": self._service.model, **fields, **self._service.extra})
        return marked_request(self._service, body)

    def _text(self, tokens: int, a_word: float, start: int) -> str:
        def words(number: int) -> str:
            return " ".join(self._words[(start + place) % len(self._words)] for place in range(number))

        return words(max(1, round(tokens / a_word))) if self._count is None else _trimmed(words, self._count, tokens)


def _trimmed(words: Callable[[int], str], count: Callable[[str], int], tokens: int) -> str:
    """So many words that the tokenizer counts that many tokens: bisection, since more words are more tokens."""
    low, high = 1, max(2, 2 * tokens)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(words(middle)) <= tokens else (low, middle)
    return words(low)


def _sounds(contract: Contract, engine: OpenAiEngine, model: ServedModel, audio: SpokenAudio, run: int) -> Exchange:
    workload, size = contract.workload, engine.prompts
    service = _service(engine, model, openai.Endpoint.TRANSCRIPTIONS)
    seconds = [sample_length(audio.seconds, seed=workload.seed, index=index) for index in range(size)]
    head = openai.build_head(service, "0", f"multipart/form-data; boundary={BOUNDARY}")
    around = multipart(model.name, service.extra)
    script = SoundRotation(head, around, seconds, audio.samples_per_s, seed=workload.seed)
    avoids = engine.cache is CacheState.AVOIDED
    return Exchange(
        script=script.marked(mark, run) if avoids else script,
        language=TranscriptLanguage(seconds, may_be_empty=audio.may_be_empty),
        unit="audio-second",
        distinct_prompts=None if avoids else size,
        size=size,
    )
