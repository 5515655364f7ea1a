"""One plain request at a time, before the run: whether the server answers at all, and how it counts words."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from lynxbench.engines import openai
from lynxbench.engines.languages import language_of
from lynxbench.errors import CannotRun
from lynxbench.https import AnswerTrickles, HttpAnswer, request
from lynxbench.load.http import EventSplitter
from lynxbench.load.response_reading import Language, ResponseReader
from lynxbench.model.serving import CacheState, OpenAiEngine, ServedEngine
from lynxbench.workload.texts import read_prompts

SHORT_WORDS, LONG_WORDS = 8, 72
"""Two prompts whose difference tells the tokens of a word, and whose rest is the template's and the mark's."""
_MARK = "qzkvjxwfyb "
TRIES = 3
"""A server that drops one in ten requests, and says so in its answers, is measured all the same."""


@dataclass(frozen=True, slots=True)
class TokenCalibration:
    """How the server counts input tokens of our prose; zero tokens a word where its count does not move."""

    has_usage: bool
    tokens_a_word: float
    overhead: float


def calibrate(engine: OpenAiEngine, service: openai.Service) -> TokenCalibration:
    """Ask twice, briefly; CannotRun says in one line why the server cannot be measured."""
    words = read_prompts().split()
    opening = "" if engine.cache in (CacheState.ALLOWED, CacheState.BYPASSED) else _MARK  # as the run's prompts begin
    counts = []
    for count in (SHORT_WORDS, LONG_WORDS):
        prompt = opening + " ".join(words[:count])
        body = openai.build_body(service, prompt, 2, cache_salt="calibration" if service.bypass_cache else "")
        reader = ask_for(engine, openai.build_request(service, body), language_of(service.endpoint))
        if reader.input_tokens < 0:
            return TokenCalibration(reader.output_tokens >= 0, 0.0, 0.0)
        counts.append(reader.input_tokens)
    slope = max(0.0, (counts[1] - counts[0]) / (LONG_WORDS - SHORT_WORDS))
    return TokenCalibration(reader.output_tokens >= 0, slope, counts[0] - slope * SHORT_WORDS)


def ask_for(engine: ServedEngine, prepared: bytes, language: Language) -> ResponseReader:
    """One answer, read as those of the run will be; CannotRun says what is wrong with it."""
    reader = language.reader(keep_text=False)
    _read(ask(engine, prepared), reader, _address(engine, prepared))
    return reader


def ask(engine: ServedEngine, prepared: bytes) -> HttpAnswer:
    """Send one prepared request and wait for the whole answer; a server that stumbles is asked again."""
    where, problem = _address(engine, prepared), ""
    for _ in range(TRIES):
        try:
            answer = _post(engine, where, prepared)
        except AnswerTrickles as error:
            raise CannotRun(f"{where}: {error}") from None
        except TimeoutError:
            raise CannotRun(f"{where}: no answer within {engine.timeouts.first_byte_s:g} s") from None
        except OSError as error:
            problem = f"the server does not answer ({_words(error)}); is it running?"
            continue
        if answer.status == 200:
            return answer
        words = " ".join(answer.body[:200].decode("utf-8", "replace").split())
        words = f"it leads to {answer.leads_to}; name the address there in engine.url" if answer.leads_to else words
        problem = f"the server answers {answer.status}: {words}"
        if answer.status < 500:
            break  # it will not change its mind
    raise CannotRun(f"{where}: {problem}")


def _post(engine: ServedEngine, where: str, prepared: bytes) -> HttpAnswer:
    head, _, body = prepared.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode("ascii").split("\r\n")[1:])
    waits = engine.timeouts
    return request(
        "POST",
        where,
        body,
        headers,
        timeout_s=waits.first_byte_s,
        whole_s=max(waits.total_s, waits.first_byte_s),
        ca_file=engine.ca_file,
        verify=engine.verify_tls,
    )


def _address(engine: ServedEngine, prepared: bytes) -> str:
    parts = urlsplit(engine.url)
    return f"{parts.scheme}://{parts.netloc}{prepared.split(b' ', 2)[1].decode('ascii')}"


def _read(answer: HttpAnswer, reader: ResponseReader, where: str) -> None:
    try:
        if answer.headers.get_content_type() == "text/event-stream":
            events = EventSplitter()
            for data in (*events.feed(answer.body), *events.flush()):
                reader.event(data)
        else:
            reader.body(answer.body, -1)
    except (ValueError, RecursionError) as error:
        raise CannotRun(f"{where}: the answer cannot be read: {error}") from None
    if reader.failure:
        raise CannotRun(f"{where}: the server fails: {reader.failure[:200]}")


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
