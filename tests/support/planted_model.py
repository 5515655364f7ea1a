"""A server whose model is a formula: every token's probability is known, and how far another precision is off.

`error` is the size of what a precision adds to every logit, always the same for a context; `noise` is drawn anew for
every request, as batching does. Words are drawn from a small vocabulary; questions can have planted replies.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

WORDS = tuple(f"w{number:02d}" for number in range(40))
SPREAD = 2.0
"""Standard deviation of the logits: the likeliest word leads the second by about half of it."""
ORDER = 3
"""How many words before it decide a word."""


@lru_cache(maxsize=1 << 14)
def drawn_logits(spread: float, *seed: int) -> np.ndarray:
    """The same for the same context, every time it is asked for."""
    return np.random.default_rng(seed).normal(0, spread, len(WORDS))


@dataclass
class PlantedModel:
    """What the server does."""

    error: float = 0.0
    noise: float = 0.0
    seed: int = 0
    replies: Mapping[str, str] = field(default_factory=dict)
    """Part of a prompt -> the whole answer to it."""
    letters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Part of a prompt -> log-probabilities of first tokens."""
    refuses: Callable[[str], bool] = lambda prompt: False
    gives_logprobs: bool = True
    gives_prompt_logprobs: bool = True
    models: Mapping[str, object] = field(default_factory=dict)
    asked: list[dict[str, object]] = field(default_factory=list)

    def logits(self, context: list[str], request: np.random.Generator) -> np.ndarray:
        """Of the word after a context."""
        key = " ".join(context[-ORDER:]).encode()
        number = int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
        values = drawn_logits(SPREAD, number)
        if self.error:
            values = values + drawn_logits(self.error, number, self.seed + 1)
        if self.noise:
            values = values + request.normal(0, self.noise, len(WORDS))
        return values

    def logprobs(self, context: list[str], request: np.random.Generator) -> np.ndarray:
        """The same as log-probabilities."""
        values = self.logits(context, request)
        top = values.max()
        return np.asarray(values - top - np.log(np.exp(values - top).sum()))

    def answer(self, path: str, ask: dict[str, object]) -> tuple[int, dict[str, object]]:
        """The whole answer to a request."""
        self.asked.append(ask)
        prompt = str(ask.get("prompt") or ask["messages"][-1]["content"])  # type: ignore[index]
        if self.refuses(prompt):
            return 400, {"error": {"message": "planted refusal"}}
        request = np.random.default_rng([self.seed, len(self.asked)])
        tokens = int(str(ask.get("max_tokens") or 16))
        chat = path.endswith("/chat/completions")
        context = prompt.split()
        names, numbers, tops = [], [], []
        if ask.get("echo") and self.gives_prompt_logprobs:
            for place, word in enumerate(context):
                known = self.logprobs(context[:place], request)
                index = WORDS.index(word) if word in WORDS else len(word) % len(WORDS)
                names.append(f" {word}" if place else word)
                numbers.append(None if place == 0 else float(known[index]))
                tops.append({})
        reply = next((text for part, text in self.replies.items() if part in prompt), None)
        said: list[str] = []
        for word in reply.split() if reply is not None else range(tokens):
            known = self.logprobs(context + said, request)
            best = np.argsort(known)[::-1][:5]
            chosen = WORDS[best[0]] if reply is None else str(word)
            said.append(chosen)
            names.append(f" {chosen}")
            numbers.append(float(known[best[0]]))
            tops.append({f" {WORDS[one]}": float(known[one]) for one in best})
        for part, letters in self.letters.items():
            if part in prompt and tops:
                tops[-len(said) or 0] = dict(letters)
        text = reply if reply is not None else " ".join(said)
        usage = {
            "prompt_tokens": len(context),
            "completion_tokens": len(said),
            "total_tokens": len(context) + len(said),
        }
        choice: dict[str, object] = {"index": 0, "finish_reason": "length"}
        if chat:
            choice["message"] = {"role": "assistant", "content": text}
            if ask.get("logprobs") and self.gives_logprobs:
                choice["logprobs"] = {"content": [
                    {"token": name, "logprob": number, "top_logprobs": [
                        {"token": word, "logprob": value} for word, value in top.items()]}
                    for name, number, top in zip(names, numbers, tops, strict=True)]}  # fmt: skip
        else:
            choice["text"] = text
            if ask.get("logprobs") is not None and self.gives_logprobs:
                choice["logprobs"] = {"tokens": names, "token_logprobs": numbers, "top_logprobs": tops}
        return 200, {"choices": [choice], "usage": usage}


@contextmanager
def planted_server(model: PlantedModel) -> Iterator[str]:
    """The address of a server with that model, in a thread of this process."""

    class Peer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send(*model.answer(self.path, ask))

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._send(200, {"data": [{"id": "planted", **model.models}]})
            else:
                self._send(404, {})

        def _send(self, status: int, document: dict[str, object]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Peer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
