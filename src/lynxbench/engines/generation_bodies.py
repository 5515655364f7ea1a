"""The fields of a request that generates, in the two forms beside chat: OpenAI's Responses and Anthropic's Messages.

A chat's messages are carried over: text and images in each form's own words. What a form cannot say is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lynxbench.errors import BadInput

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
USUAL_MOST_TOKENS = 1024
"""The Messages form asks for a bound; where the contract has none, this one stands in the request."""
DATA = "data:"


def responses_fields(prompt: Prompt, output_tokens: int | None, *, stream: bool) -> dict[str, object]:
    """A request to `/v1/responses`; the server is asked not to keep it."""
    given: object = prompt if isinstance(prompt, str) else [_response_item(turn) for turn in _turns(prompt)]
    fields: dict[str, object] = {"input": given, "temperature": 0.0, "stream": stream, "store": False}
    return fields if output_tokens is None else {**fields, "max_output_tokens": output_tokens}


def messages_fields(prompt: Prompt, output_tokens: int | None, *, stream: bool) -> dict[str, object]:
    """A request to `/v1/messages`; what a chat's system turns say stands apart, as the form wants it."""
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _turns(prompt)
    system = "\n\n".join(_plain(turn) for turn in turns if turn.get("role") in ("system", "developer"))
    spoken = [_message(turn) for turn in turns if turn.get("role") not in ("system", "developer")]
    fields: dict[str, object] = {
        "messages": spoken,
        "max_tokens": output_tokens or USUAL_MOST_TOKENS,
        "temperature": 0.0,
        "stream": stream,
    }
    return {"system": system, **fields} if system else fields


def _turns(prompt: Sequence[int] | Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    turns = [turn for turn in prompt if isinstance(turn, Mapping)]
    if len(turns) < len(prompt):
        raise BadInput("endpoints responses and messages take text or a chat's messages, not token ids")
    return turns


def _response_item(turn: Mapping[str, Any]) -> dict[str, object]:
    role, content = _role(turn, ("user", "assistant", "system", "developer")), turn.get("content")
    if isinstance(content, str):
        return {"role": role, "content": content}
    text = "output_text" if role == "assistant" else "input_text"
    parts: list[dict[str, object]] = []
    for part in _parts(content):
        if part.get("type") == "text":
            parts.append({"type": text, "text": part["text"]})
        else:
            parts.append({"type": "input_image", "image_url": _image(part, "responses")})
    return {"role": role, "content": parts}


def _message(turn: Mapping[str, Any]) -> dict[str, object]:
    role, content = _role(turn, ("user", "assistant")), turn.get("content")
    if isinstance(content, str):
        return {"role": role, "content": content}
    parts: list[dict[str, object]] = []
    for part in _parts(content):
        if part.get("type") == "text":
            parts.append({"type": "text", "text": part["text"]})
            continue
        address = _image(part, "messages")
        kind, comma, data = address.removeprefix(DATA).partition(";base64,")
        source = {"type": "url", "url": address}
        if address.startswith(DATA):
            if not comma:
                raise BadInput("endpoint messages takes images as addresses or as data:…;base64,…")
            source = {"type": "base64", "media_type": kind, "data": data}
        parts.append({"type": "image", "source": source})
    return {"role": role, "content": parts}


def _role(turn: Mapping[str, Any], known: tuple[str, ...]) -> str:
    role = turn.get("role")
    if role not in known:
        raise BadInput(f"a turn of role {role!r} has no place in this endpoint; use endpoint chat")
    return str(role)


def _parts(content: object) -> list[Mapping[str, Any]]:
    if not isinstance(content, Sequence) or not all(isinstance(part, Mapping) for part in content):
        raise BadInput("a message's content must be text or a list of parts")
    return list(content)


def _image(part: Mapping[str, Any], endpoint: str) -> str:
    image = part.get("image_url")
    address = image.get("url") if isinstance(image, Mapping) else None
    if part.get("type") != "image_url" or not isinstance(address, str):
        raise BadInput(f"endpoint {endpoint} takes text and images, not {part.get('type')!r}; use endpoint chat")
    return address


def _plain(turn: Mapping[str, Any]) -> str:
    content = turn.get("content")
    if isinstance(content, str):
        return content
    return "\n\n".join(str(part["text"]) for part in _parts(content) if part.get("type") == "text")
