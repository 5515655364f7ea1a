"""One plain request at a time, before the run: whether the server answers at all, and how it counts words."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from lynxbench.engines import openai
from lynxbench.errors import CannotRun
from lynxbench.model.contract import OpenAiEngine
from lynxbench.workload.texts import read_prompts

SHORT_WORDS, LONG_WORDS = 8, 72
"""Two prompts whose difference tells the tokens of a word, and whose rest is the template's and the mark's."""
_MARK = "qzkvjxwfyb "


@dataclass(frozen=True, slots=True)
class Calibration:
    """How the server counts input tokens of our prose; zero tokens a word where its count does not move."""

    has_usage: bool
    tokens_a_word: float
    overhead: float


def calibrate(
    engine: OpenAiEngine, service: openai.Service, environment: Mapping[str, str] | None = None
) -> Calibration:
    """Ask twice, briefly; CannotRun says in one line why the server cannot be measured."""
    words = read_prompts().split()
    counts = []
    for many in (SHORT_WORDS, LONG_WORDS):
        prompt = _MARK + " ".join(words[:many])
        body = openai.build_body(service, prompt, 2, cache_salt="calibration" if service.bypass_cache else "")
        reader = openai.OpenAiReader(keep_text=False)
        _read(engine, service, openai.build_request(service, body, environment), reader)
        if reader.input_tokens < 0:
            return Calibration(reader.output_tokens >= 0, 0.0, 0.0)
        counts.append(reader.input_tokens)
    slope = max(0.0, (counts[1] - counts[0]) / (LONG_WORDS - SHORT_WORDS))
    return Calibration(reader.output_tokens >= 0, slope, counts[0] - slope * SHORT_WORDS)


def _read(engine: OpenAiEngine, service: openai.Service, request: bytes, reader: openai.OpenAiReader) -> None:
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode("ascii").split("\r\n")
    path = lines[0].split(" ")[1]
    headers = dict(line.split(": ", 1) for line in lines[1:])
    where = f"{engine.url}"
    parts = urlsplit(engine.url)
    assert parts.hostname is not None
    timeout_s = engine.timeouts.first_byte_s
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=engine.ca_file)
        if not engine.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise CannotRun(f"{where}: the server does not answer ({said}); is it running?") from None
    finally:
        connection.close()
    if answer.status != 200:
        shown = " ".join(data[:200].decode("utf-8", "replace").split())
        raise CannotRun(f"{where}{service.endpoint.path}: the server answers {answer.status}: {shown}")
    try:
        if answer.headers.get_content_type() == "text/event-stream":
            for block in data.replace(b"\r\n", b"\n").split(b"\n\n"):
                if block.startswith(b"data: "):
                    reader.event(block[6:])
        else:
            reader.body(data)
    except ValueError as error:
        raise CannotRun(f"{where}{service.endpoint.path}: the answer cannot be read: {error}") from None
    if reader.failure:
        raise CannotRun(f"{where}{service.endpoint.path}: the server fails: {reader.failure[:200]}")
