"""What production sends, as prepared requests: files of prompts, sessions, prefixes in common; else made-up prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lynxbench.engines import openai
from lynxbench.engines.asking import SHORT_WORDS, TokenCalibration, calibrate
from lynxbench.engines.languages import language_of
from lynxbench.engines.marked_requests import PLACE, PLACE_IN_JSON, MarkedRotation
from lynxbench.engines.other_work import build_other
from lynxbench.engines.pieced import Letters, PiecedRotation, RequestFrame, SharedText
from lynxbench.engines.prose import Prose
from lynxbench.engines.served import Exchange, build_exchange, load_counter, marked_request, mixed_services, service_of
from lynxbench.engines.session_script import SessionRotation
from lynxbench.engines.structured import StructuredLanguage
from lynxbench.errors import BadInput, CannotRun
from lynxbench.load.response_reading import PlainRotation, Script
from lynxbench.model.asked_work import CACHE_BLOCK, TRACE_BLOCK, SharedPrefix
from lynxbench.model.contract import Contract
from lynxbench.model.dialect import Dialect
from lynxbench.model.serving import CacheState, OpenAiEngine
from lynxbench.model.workload import SERVED_TASKS, ServedModel
from lynxbench.workload.answer_checks import read_check
from lynxbench.workload.lengths import INPUT_STREAM, OUTPUT_STREAM, sample_length
from lynxbench.workload.prefixes import SharedInputs
from lynxbench.workload.prompt_files import Messages, WrittenPrompt, read_prompt_file
from lynxbench.workload.request_log import RequestLog
from lynxbench.workload.session_files import SessionSet, read_sessions
from lynxbench.workload.texts import read_prompts

OTHER_BLOCK = 0.25
"""A number of hashes this far from that of blocks is of another block; captured ones may be off by one."""
MISSED_BLOCKS = 0.5
"""Where more requests than this have another number of hashes than their length has blocks, the block is another."""


def exchange_of(
    contract: Contract, *, run: int, trace: RequestLog | None = None, calibration: TokenCalibration | None = None
) -> Exchange:
    """The contract's requests for one run, whatever they come from."""
    engine, workload, model = contract.engine, contract.workload, contract.workload.model
    if not isinstance(engine, OpenAiEngine) or not isinstance(model, ServedModel):
        return build_exchange(contract, run=run, trace=trace, calibration=calibration)
    if workload.task in SERVED_TASKS:
        return build_other(contract, engine, model, run, calibration)
    service = service_of(contract, engine, model)
    calibration = calibration or calibrate(engine, service)
    check, source = (None, None) if workload.answers is None else read_check(workload.answers)
    if check is not None:
        service = replace(service, extra={**check.request_fields(), **service.extra}, forces_length=False)
    made_up = workload.prompts is None and engine.cache not in (CacheState.SHARED, CacheState.TRACED)
    if made_up:
        exchange = build_exchange(contract, run=run, trace=trace, calibration=calibration, service=service)
    else:
        count = load_counter(model.tokenizer) if model.tokenizer else None
        exchange = _Work(contract, engine, service, run, count, calibration, trace).exchange()
    if trace is not None and trace.file is not None and not workload.is_sessions:
        exchange = replace(exchange, sources=(*exchange.sources, trace.file))
    if check is None:
        return exchange
    sources = exchange.sources if source is None else (*exchange.sources, source)
    # A form is ended by the model: the asked length is a bound, and nothing is held against a shorter answer.
    return replace(
        exchange, language=StructuredLanguage(), keep_text=True, check=check, sources=sources, asked_output=()
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """One contract's requests in the making."""

    contract: Contract
    engine: OpenAiEngine
    service: openai.Service
    run: int
    count: Callable[[str], int] | None
    calibration: TokenCalibration
    trace: RequestLog | None

    def exchange(self) -> Exchange:
        """Requests from a file, or with prefixes in common."""
        prompts = self.contract.workload.prompts
        if prompts is None:
            return self._of_trace() if self.engine.cache is CacheState.TRACED else self._of_share()
        if self.contract.workload.is_sessions:
            return self._of_sessions(read_sessions(prompts.file, prompts.sha256))
        written = read_prompt_file(prompts.file, prompts.form, prompts.sha256)
        asked = [self._asked(index, prompt) for index, prompt in enumerate(written.prompts)]
        script = self._written([prompt.prompt for prompt in written.prompts], asked, prompts.file)
        return replace(self._whole(script, asked), sources=(written.source,))

    # --- texts that people wrote -------------------------------------------------------------------------------------

    def _written(self, prompts: Sequence[str | Messages], asked: Sequence[int | None], file: str) -> Script:
        salted = self.service.bypass_cache and self.service.dialect is Dialect.VLLM
        avoids = self.engine.cache is CacheState.AVOIDED
        requests = []
        services = mixed_services(self.contract.workload, self.service, len(prompts))
        for place, (prompt, tokens, service) in enumerate(zip(prompts, asked, services, strict=True), 1):
            if not isinstance(prompt, str) and service.endpoint is not openai.Endpoint.CHAT:
                raise BadInput(f"{file}: prompt {place} is a chat's messages; endpoint {service.endpoint} takes texts")
            text: Any = _marked(prompt) if avoids else prompt
            body = openai.build_body(service, text, tokens, PLACE if salted else "")
            requests.append(marked_request(service, body))
        if avoids or salted:
            return MarkedRotation([tuple(request.split(PLACE_IN_JSON)) for request in requests], self.run)
        return PlainRotation(tuple(requests))

    def _asked(self, index: int, prompt: WrittenPrompt) -> int | None:
        """Output tokens to ask for: the contract's, the file's, the recorded answer's; else the model decides."""
        drawn = self._drawn(index)
        if drawn is not None or prompt.output_tokens is not None or prompt.answer is None:
            return drawn or prompt.output_tokens
        if self.count is not None:
            return max(1, self.count(prompt.answer))
        return max(1, round(len(prompt.answer.split()) * (self.calibration.tokens_a_word or 1.3)))

    def _drawn(self, index: int) -> int | None:
        workload = self.contract.workload
        if workload.output_tokens is None:
            return None
        return sample_length(workload.output_tokens, seed=workload.seed, index=index, stream=OUTPUT_STREAM)

    # --- texts that share their beginnings ---------------------------------------------------------------------------

    def _of_trace(self) -> Exchange:
        trace, block = self.trace, (self.engine.prefix or SharedPrefix()).block or TRACE_BLOCK
        if trace is None or trace.prefixes is None:
            named = "the trace" if trace is None else trace.source
            raise BadInput(
                f"{named}: has no hash_ids, which engine.cache traced needs; say avoided, or name another trace"
            )
        _refuse_other_block(trace.prefixes, trace.input_tokens.tolist(), block, trace.source)
        outputs = None if trace.output_tokens is None else trace.output_tokens.tolist()
        asked = [self._drawn(place) or (max(1, outputs[place]) if outputs else None) for place in range(len(trace))]
        lengths = [max(1, length) for length in trace.input_tokens.tolist()]
        return self._pieced(lengths, trace.prefixes, asked, block, Letters.ROUND)

    def _of_share(self) -> Exchange:
        workload, prefix = self.contract.workload, self.engine.prefix
        assert prefix is not None
        assert prefix.share is not None
        assert workload.input_tokens is not None
        block, places = prefix.block or CACHE_BLOCK, range(self.engine.prompts)
        lengths = [
            sample_length(workload.input_tokens, seed=workload.seed, index=place, stream=INPUT_STREAM)
            for place in places
        ]
        common = [round(prefix.share * length / block) * block for length in lengths]
        services = mixed_services(workload, self.service, len(lengths))
        asked = [self._drawn(place) for place in places]
        frames = _frames(services, asked)
        texts = [
            SharedText(
                frames[place], (place % prefix.prefixes,) if common[place] else (), lengths[place], common[place]
            )
            for place in places
        ]
        script = PiecedRotation(texts, self._prose(), overhead=self._overhead(), letters=Letters.REST, run=self.run)
        shared = SharedInputs(tuple(lengths), block, common_tokens=tuple(common))
        return replace(self._whole(script, asked), shared=shared)

    def _pieced(
        self,
        lengths: Sequence[int],
        blocks: Sequence[tuple[int, ...]],
        asked: Sequence[int | None],
        block: int,
        letters: Letters,
    ) -> Exchange:
        if self.service.bypass_cache and self.service.dialect is Dialect.VLLM:
            raise CannotRun("engine.cache bypassed is not for prompts made up to recorded lengths; say avoided")
        services = mixed_services(self.contract.workload, self.service, len(lengths))
        frames = _frames(services, asked)
        texts = [SharedText(*row, block) for row in zip(frames, blocks, lengths, strict=True)]
        script = PiecedRotation(texts, self._prose(), overhead=self._overhead(), letters=letters, run=self.run)
        shared = SharedInputs(tuple(lengths), block, tuple(blocks)) if letters is Letters.ROUND else None
        return replace(self._whole(script, asked), shared=shared)

    def _prose(self) -> Prose:
        return Prose(self.count, self.calibration)

    def _overhead(self) -> float:
        """Input tokens that the server counts beside our words: its template's, and the letters'."""
        known = self.calibration
        if known.tokens_a_word <= 0:
            return 0.0
        if self.count is None:
            return max(0.0, known.overhead)
        short = known.overhead + known.tokens_a_word * SHORT_WORDS
        return max(0.0, short - self.count(" ".join(read_prompts().split()[:SHORT_WORDS])))

    # --- sessions ----------------------------------------------------------------------------------------------------

    def _of_sessions(self, recorded: SessionSet) -> Exchange:
        calls = [call for session in recorded.sessions for call in session.calls]
        asked = [self._drawn(place) or call.output_tokens for place, call in enumerate(calls)]
        written = [call.prompt for call in calls if call.prompt is not None]
        cache = self.engine.cache
        if written:
            exchange = self._whole(self._written(written, asked, recorded.source.file), asked)
        else:
            letters = {CacheState.TRACED: Letters.ROUND, CacheState.AVOIDED: Letters.EACH}.get(cache, Letters.NONE)
            block = (self.engine.prefix or SharedPrefix()).block or TRACE_BLOCK
            lengths = [call.input_tokens or 1 for call in calls]
            hashes = [call.hash_ids if cache is not CacheState.AVOIDED else () for call in calls]
            if cache is CacheState.TRACED:
                _refuse_other_block(hashes, lengths, block, recorded.source.file)
            exchange = self._pieced(lengths, hashes, asked, block, letters)
        script = SessionRotation(recorded.sessions, exchange.script)
        return replace(exchange, script=script, calls_before=script.calls_before, sources=(recorded.source,))

    def _whole(self, script: Script, asked: Sequence[int | None]) -> Exchange:
        known = self.calibration
        avoids = self.engine.cache is CacheState.AVOIDED
        return Exchange(
            script=script,
            language=language_of(self.service.endpoint),
            unit="token",
            distinct_prompts=None if avoids else len(asked),
            asked_output=tuple(tokens or 0 for tokens in asked),
            size=len(asked),
            has_tokens=True,
            keep_text=self.count is not None and not known.has_usage,
            count=self.count,
            calibration=known,
        )


def _frames(services: Sequence[openai.Service], asked: Sequence[int | None]) -> list[RequestFrame]:
    """A frame a request; those that are alike are one."""
    made: dict[tuple[str, int | None], RequestFrame] = {}
    for service, tokens in zip(services, asked, strict=True):
        if (service.model, tokens) not in made:
            made[service.model, tokens] = RequestFrame(service, tokens)
    return [made[service.model, tokens] for service, tokens in zip(services, asked, strict=True)]


def _marked(prompt: str | Messages) -> str | list[Mapping[str, Any]]:
    """A prompt with the place of its letters before its first text."""
    if isinstance(prompt, str):
        return f"{PLACE} {prompt}"
    first, *rest = prompt
    content = first["content"]
    if isinstance(content, str):
        return [{**first, "content": f"{PLACE} {content}"}, *rest]
    parts = [{"type": "text", "text": PLACE}, *content]
    return [{**first, "content": parts}, *rest]


def _refuse_other_block(blocks: Sequence[tuple[int, ...]], lengths: Sequence[int], block: int, source: str) -> None:
    """Hashes of blocks of another size would share other beginnings than the trace does."""
    hashed = [(len(ids), length) for ids, length in zip(blocks, lengths, strict=True) if ids]
    missed = sum(abs(count - -(-length // block)) > max(1, OTHER_BLOCK * count) for count, length in hashed)
    if hashed and missed > MISSED_BLOCKS * len(hashed):
        likely = sorted(length / count for count, length in hashed)[len(hashed) // 2]
        raise BadInput(
            f"{source}: most inputs do not have as many hash_ids as blocks of {block} tokens (about {likely:.0f} "
            "tokens a hash here); say the trace's own in engine.prefix.block"
        )
