"""What the ground-truth server says in the forms beside OpenAI's chat: Responses, Messages, rerank, transcriptions.

Each form is a few texts: what a stream opens with, a piece, its end, a whole answer. Every token is " the".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

RESPONSES, MESSAGES = b"/v1/responses", b"/v1/messages"
RERANK = (b"/v1/rerank", b"/v2/rerank", b"/rerank")
TRANSCRIPTIONS = b"/v1/audio/transcriptions"
FORMS = (RESPONSES, MESSAGES, *RERANK, TRANSCRIPTIONS)
OVERLOADED = {"type": "overloaded_error", "message": "a fault on demand"}


@dataclass(frozen=True, slots=True)
class Counts:
    """The tokens of one answer."""

    asked: int
    cached: int
    total: int
    reasoning: int


def event(document: Mapping[str, object]) -> str:
    """A named event."""
    return f"event: {document['type']}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n"


@lru_cache(maxsize=64)
def opening(path: bytes, counts: Counts) -> str:
    """What a stream begins with, before any output."""
    if path == RESPONSES:
        response: dict[str, object] = {
            "id": "resp_1",
            "object": "response",
            "status": "in_progress",
            "output": [],
            "usage": None,
        }
        return "".join(
            event({"type": kind, "response": response}) for kind in ("response.created", "response.in_progress")
        )
    fresh = counts.asked - counts.cached
    usage = {"input_tokens": fresh, "cache_read_input_tokens": counts.cached, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    return event({"type": "message_start", "message": message}) + event(block) + event({"type": "ping"})


@lru_cache(maxsize=256)
def piece(path: bytes, tokens: int, thinks: bool) -> str:
    """One event of output."""
    text = " the" * tokens
    if path == RESPONSES:
        kind = "response.reasoning_text.delta" if thinks else "response.output_text.delta"
        return event({"type": kind, "item_id": "item_1", "output_index": 0, "content_index": 0, "delta": text})
    delta = {"type": "thinking_delta", "thinking": text} if thinks else {"type": "text_delta", "text": text}
    return event({"type": "content_block_delta", "index": 0, "delta": delta})


@lru_cache(maxsize=256)
def ending(path: bytes, counts: Counts, usage: bool, word: str = " the") -> str:
    """What follows the last output."""
    if path == RESPONSES:
        done = {"type": "response.output_text.done", "text": word * (counts.total - counts.reasoning)}
        return event(done) + event({"type": "response.completed", "response": _response(counts, usage, word)})
    delta: dict[str, object] = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
    if usage:
        delta["usage"] = {"output_tokens": counts.total}
    stop = event({"type": "content_block_stop", "index": 0})
    return stop + event(delta) + event({"type": "message_stop"})


def error_event(path: bytes) -> str:
    """An error in the middle of a stream, after which it ends well framed."""
    if path == RESPONSES:
        failed = {"status": "failed", "error": {"code": "server_error", "message": "a fault on demand"}}
        return event({"type": "response.failed", "response": failed})
    if path == MESSAGES:
        return event({"type": "error", "error": OVERLOADED})
    return f"data: {json.dumps({'error': OVERLOADED})}\n\n"


def whole(path: bytes, body: bytes, counts: Counts, fault: str) -> str:
    """An answer that is not streamed, right or wrong in one way."""
    if fault == "error-body":
        return json.dumps({"type": "error", "error": OVERLOADED})
    if fault == "other":
        return '{"detail":"Not what you asked for"}'
    if path == RESPONSES:
        return json.dumps(_response(counts, fault != "no-usage", "" if fault == "empty" else " the"))
    if path == MESSAGES:
        parts = [{"type": "thinking", "thinking": " the" * counts.reasoning}] if counts.reasoning else []
        said = "" if fault == "empty" else " the" * (counts.total - counts.reasoning)
        message: dict[str, object] = {"type": "message", "content": [*parts, {"type": "text", "text": said}]}
        if fault != "no-usage":
            message["usage"] = {"input_tokens": counts.asked, "output_tokens": counts.total}
        return json.dumps(message)
    return _ranked(body, fault) if path in RERANK else _heard(body, fault)


def _response(counts: Counts, usage: bool, word: str = " the") -> dict[str, object]:
    text = {"type": "output_text", "text": word * (counts.total - counts.reasoning)}
    response: dict[str, object] = {"id": "resp_1", "object": "response", "status": "completed", "error": None}
    response["output"] = [{"type": "message", "content": [text]}]
    if usage:
        response["usage"] = {
            "input_tokens": counts.asked,
            "output_tokens": counts.total,
            "input_tokens_details": {"cached_tokens": counts.cached},
            "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        }
    return response


def _ranked(body: bytes, fault: str) -> str:
    asked = json.loads(body)
    texts = asked.get("texts")
    documents = asked["documents"] if texts is None else texts
    count = 0 if fault == "empty" else len(documents) - (fault == "fewer")
    scores = [{"index": place, "relevance_score": 1 / (1 + place)} for place in range(count)]
    if texts is not None:
        return json.dumps([{"index": row["index"], "score": row["relevance_score"]} for row in scores])
    words = sum(len(text.split()) for text in documents) + len(documents) * len(asked["query"].split())
    return json.dumps({"results": scores, "usage": {"total_tokens": words}})


def _heard(body: bytes, fault: str) -> str:
    seconds = sound_s(body)
    heard = max(0.0, seconds - 30) if fault == "fewer" else seconds
    text = "" if fault == "empty" else "the sound of it"
    return json.dumps({"text": text, "usage": {"type": "duration", "seconds": heard}})


def sound_s(body: bytes) -> float:
    """The duration of the WAV file of a request, by its own bytes; ValueError where there is none."""
    start = body.find(b"RIFF")
    form = re.search(rb'name="file"; filename="[^"]+\.wav"', body[: max(0, start)])
    if form is None or body[start + 8 : start + 12] != b"WAVE":
        raise ValueError("no sound file in the request")
    a_second = int.from_bytes(body[start + 28 : start + 32], "little")
    stated = int.from_bytes(body[start + 40 : start + 44], "little")
    held = body.rfind(b"\r\n--") - start - 44
    if stated != held:
        raise ValueError(f"the sound file says {stated} bytes and holds {held}")
    return stated / a_second
