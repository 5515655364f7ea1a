"""One plain request at a time, before the run: whether the server answers at all, and how it counts words."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import sleep
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
BUSY = (429, 503)
"""Statuses by which a server asks to come again later."""
USUAL_WAIT_S = 1.0
"""Before the second try, where a busy server does not say how long; twice as long before the next."""
LONGEST_WAIT_S = 60.0
"""For which one question waits in all: a longer wait is for who started the run to decide."""

Say = Callable[[str], object]


def silently(line: str) -> None:
    """Nobody is there to be told."""


@dataclass(frozen=True, slots=True)
class TokenCalibration:
    """How the server counts input tokens of our prose; zero tokens a word where its count does not move."""

    has_usage: bool
    tokens_a_word: float
    overhead: float


def calibrate(engine: OpenAiEngine, service: openai.Service, say: Say = silently) -> TokenCalibration:
    """Ask twice, briefly; CannotRun says in one line why the server cannot be measured."""
    words = read_prompts().split()
    opening = "" if engine.cache in (CacheState.ALLOWED, CacheState.BYPASSED) else _MARK  # as the run's prompts begin
    counts = []
    for count in (SHORT_WORDS, LONG_WORDS):
        prompt = opening + " ".join(words[:count])
        body = openai.build_body(service, prompt, 2, cache_salt="calibration" if service.bypass_cache else "")
        reader = ask_for(engine, openai.build_request(service, body), language_of(service.endpoint), say)
        if reader.input_tokens < 0:
            return TokenCalibration(reader.output_tokens >= 0, 0.0, 0.0)
        counts.append(reader.input_tokens)
    slope = max(0.0, (counts[1] - counts[0]) / (LONG_WORDS - SHORT_WORDS))
    return TokenCalibration(reader.output_tokens >= 0, slope, counts[0] - slope * SHORT_WORDS)


def ask_for(engine: ServedEngine, prepared: bytes, language: Language, say: Say = silently) -> ResponseReader:
    """One answer, read as those of the run will be; CannotRun says what is wrong with it."""
    reader = language.reader(keep_text=False)
    _read(ask(engine, prepared, say), reader, _address(engine, prepared))
    return reader


def ask(engine: ServedEngine, prepared: bytes, say: Say = silently) -> HttpAnswer:
    """Send one prepared request and wait for the whole answer.

    A server that stumbles is asked again, one that is busy after the time that it names; `say` is told of every wait.
    """
    where, problem, waited_s = _address(engine, prepared), "", 0.0
    for attempt in range(1, TRIES + 1):
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
        if answer.status in BUSY and attempt < TRIES:
            wait_s = retry_after_s(answer, datetime.now(UTC))
            named = "as it asks" if wait_s is not None else "it names no time"
            wait_s = USUAL_WAIT_S * 2 ** (attempt - 1) if wait_s is None else wait_s
            if waited_s + wait_s > LONGEST_WAIT_S:
                problem += (
                    f" (it asks to wait {wait_s:.0f} s, a greeting waits {LONGEST_WAIT_S:g} s: run it again then)"
                )
                break
            say(f"{where}: the server answers {answer.status}; asked again in {wait_s:g} s ({named})")
            sleep(wait_s)
            waited_s += wait_s
        elif answer.status in BUSY:
            problem += f" (asked {TRIES} times, with waits of {waited_s:g} s)"
        elif answer.status < 500:
            break  # it will not change its mind
    raise CannotRun(f"{where}: {problem}")


def retry_after_s(answer: HttpAnswer, now: datetime) -> float | None:
    """How long a server asks to wait, in seconds or until a date; None where it does not say, or not readably."""
    said = str(answer.headers.get("retry-after", "")).strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            until = parsedate_to_datetime(said)
        except (ValueError, OverflowError):
            return None
        seconds = (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds()
        return max(0.0, seconds)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


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
