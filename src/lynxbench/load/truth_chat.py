"""What the ground-truth server says in OpenAI's chat and completions, as bytes."""

import json
from functools import lru_cache

COMMON = '"id":"truth-1","created":1700000000,"model":"ground-truth"'


def chunk(text: str) -> bytes:
    """A chunk of a chunked body."""
    return f"{len(text.encode()):x}\r\n{text}\r\n".encode()


def http_answer(status: str, body: str, kind: str = "application/json") -> bytes:
    """A whole response."""
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}".encode()


@lru_cache(maxsize=1024)
def token_event(chat: bool, tokens: int, last: bool, thinks: bool = False) -> bytes:
    """One event of output."""
    text = json.dumps(" the" * tokens)
    finish = '"length"' if last else "null"
    if chat:
        name = "reasoning_content" if thinks else "content"
        choice = f'{{"index":0,"delta":{{"{name}":{text}}},"finish_reason":{finish}}}'
        return chunk(f'data: {{{COMMON},"object":"chat.completion.chunk","choices":[{choice}]}}\n\n')
    choice = f'{{"index":0,"text":{text},"finish_reason":{finish}}}'
    return chunk(f'data: {{{COMMON},"object":"text_completion","choices":[{choice}]}}\n\n')


def said_event(said: str, tool: str | None, begins: bool, last: bool) -> bytes:
    """A piece of what a chat answer is to say, or of the arguments of the tool that it calls."""
    delta: dict[str, object] = {"content": said}
    if tool is not None:
        function = {"name": tool, "arguments": said} if begins else {"arguments": said}
        delta = {"tool_calls": [{"index": 0, "function": function}]}
    choice = {"index": 0, "delta": delta, "finish_reason": "stop" if last else None}
    return chunk(f'data: {{{COMMON},"object":"chat.completion.chunk","choices":[{json.dumps(choice)}]}}\n\n')


ROLE = chunk(
    f'data: {{{COMMON},"object":"chat.completion.chunk",'
    '"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
)


def usage_of(tokens: int, looked_up: tuple[int, int], reasoning: int) -> str:
    """What an answer says of its tokens."""
    asked, cached = looked_up
    counts = f'"prompt_tokens":{asked},"completion_tokens":{tokens},"total_tokens":{tokens + asked}'
    details = f'"prompt_tokens_details":{{"cached_tokens":{cached}}}'
    thought = f',"completion_tokens_details":{{"reasoning_tokens":{min(reasoning, tokens)}}}' if reasoning else ""
    return f"{{{counts},{details}{thought}}}"
