"""The ground-truth server's side of a connection: requests read, answers written when they are due."""

from __future__ import annotations

import asyncio
import json
import ssl
from time import perf_counter_ns

import msgspec

from lynxbench import __version__
from lynxbench.load import truth_forms
from lynxbench.load.direct_write import write_answer
from lynxbench.load.ground_truth import PROMPT_TOKENS, GroundTruthServer, ServedOutcome
from lynxbench.load.truth_chat import COMMON, ROLE, chunk, http_answer, said_event, token_event, usage_of
from lynxbench.load.truth_grpc import GrpcPeer


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Ask(msgspec.Struct):
    model: str = "ground-truth"
    stream: bool = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    stream_options: _StreamOptions | None = None


_decode_ask = msgspec.json.Decoder(_Ask).decode
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class _Stream:
    """One answer being given."""

    __slots__ = (
        "_base_ns", "_chat", "_fault", "_itl_ns", "_left", "_looked_up", "_named", "_number", "_outcome", "_path",
        "_peer", "_sent", "_server", "_total", "_ttft_ns", "_usage",
    )  # fmt: skip

    def __init__(
        self,
        server: GroundTruthServer,
        peer: _Peer,
        number: int,
        outcome: ServedOutcome,
        path: bytes,
        ask: _Ask,
        looked_up: tuple[int, int],
    ) -> None:
        self._server, self._peer, self._number, self._outcome, self._path = server, peer, number, outcome, path
        self._chat, self._fault = path == b"/v1/chat/completions", ""
        self._named = path in (truth_forms.RESPONSES, truth_forms.MESSAGES)
        if outcome is ServedOutcome.WRONG:
            self._fault = server.behaviour.fault
        behaviour = server.behaviour
        asked = ask.max_output_tokens or ask.max_completion_tokens or ask.max_tokens
        self._total = behaviour.tokens or asked or 16
        self._left = self._total
        self._sent = 0
        options = ask.stream_options
        self._usage = behaviour.usage and (self._named or (options is not None and options.include_usage))
        self._usage = self._usage and self._fault != "no-usage"
        self._looked_up = looked_up
        events = -(-self._total // behaviour.tokens_per_event)
        self._base_ns, scale = server.occupy(number, server.ttft_ns + (events - 1) * server.itl_ns)
        self._ttft_ns, self._itl_ns = int(server.ttft_ns * scale), int(server.itl_ns * scale)
        if ask.model != "ground-truth":
            self._ttft_ns += int(behaviour.other_models_ms * 1e6)

    def begin(self) -> None:
        server = self._server
        opening = chunk(truth_forms.opening(self._path, self._counts())) if self._named else b""
        if server.ttft_ns == 0 and server.itl_ns == 0:
            self._peer.write(_STREAM_HEAD, whole=True)
            pieces, over = [opening] if opening else [], False
            while not over:
                piece, over = self._next()
                pieces.append(piece)
            self._peer.write(b"".join(pieces))
            self._over()
            return
        head = _STREAM_HEAD + opening + (ROLE if server.behaviour.role_at_start and self._chat else b"")
        self._peer.write(head, whole=True)
        server.schedule(self, self._base_ns + self._ttft_ns)

    def step(self) -> int:
        """Send what is due now; the moment of the next event, or 0 at the end."""
        if self._peer.closed:
            return 0
        piece, over = self._next()
        self._peer.write(piece)
        if over:
            self._over()
            return 0
        return self._base_ns + self._ttft_ns + self._sent * self._itl_ns

    def _next(self) -> tuple[bytes, bool]:
        """The next event and whether it is the last thing sent."""
        server, behaviour = self._server, self._server.behaviour
        tokens = min(behaviour.tokens_per_event, self._left)
        self._left -= tokens
        now = perf_counter_ns()
        if self._sent == 0:
            server.first[self._number] = now
        server.last[self._number] = now
        self._sent += 1
        server.events[self._number] = self._sent
        piece = self._piece(tokens)
        if self._outcome is ServedOutcome.DROP and self._total - self._left >= self._total / 2:
            return piece, True
        if self._fault in ("error-event", "cut") and self._total - self._left >= self._total / 2:
            said = chunk(truth_forms.error_event(self._path)) if self._fault == "error-event" else b""
            return piece + said + b"0\r\n\r\n", True
        return (piece + self._tail(), True) if self._left == 0 else (piece, False)

    def _piece(self, tokens: int) -> bytes:
        behaviour, over = self._server.behaviour, self._left == 0
        done = self._total - self._left - tokens
        if self._named:
            return (
                b""
                if self._fault == "empty"
                else chunk(truth_forms.piece(self._path, tokens, done < behaviour.reasoning))
            )
        if not self._chat or (behaviour.says is None and done >= behaviour.reasoning):
            return token_event(self._chat, tokens, over)
        if done < behaviour.reasoning:
            return token_event(self._chat, tokens, over, thinks=True)
        said, whole = behaviour.says or "", self._total - behaviour.reasoning
        begin, end = (len(said) * (part - behaviour.reasoning) // whole for part in (done, done + tokens))
        return said_event(said[begin:end], behaviour.tool, done == behaviour.reasoning, over)

    def _tail(self) -> bytes:
        tail = b""
        if self._named:
            word = "" if self._fault == "empty" else " the"
            return chunk(truth_forms.ending(self._path, self._counts(), self._usage, word)) + b"0\r\n\r\n"
        if self._usage:
            kind = "chat.completion.chunk" if self._chat else "text_completion"
            usage = usage_of(self._total, self._looked_up, self._server.behaviour.reasoning)
            tail += chunk(f'data: {{{COMMON},"object":"{kind}","choices":[],"usage":{usage}}}\n\n')
        if self._server.behaviour.end_marker:
            tail += chunk("data: [DONE]\n\n")
        return tail + b"0\r\n\r\n"

    def _counts(self) -> truth_forms.Counts:
        return truth_forms.Counts(*self._looked_up, self._total, min(self._server.behaviour.reasoning, self._total))

    def _over(self) -> None:
        self._server.outcome[self._number] = self._outcome
        if self._outcome is ServedOutcome.DROP:
            self._peer.hang_up()
        else:
            self._peer.answered()


class _Peer(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: GroundTruthServer) -> None:
        self._server = server
        self._held = b""
        self._served = 0
        self._number = -1
        self.asked = b""
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._server.connections += 1
        plain = transport.get_extra_info("ssl_object") is None
        self._fd = transport.get_extra_info("socket").fileno() if plain else -1

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._fd = -1
        if self._number >= 0 and self._server.outcome[self._number] == ServedOutcome.OPEN:
            self._server.outcome[self._number] = ServedOutcome.CLIENT_CLOSED

    def data_received(self, data: bytes) -> None:
        self._held += data
        if self._held.startswith(b"PRI * HTTP/2.0"):  # the bundled server speaks gRPC on the same port
            peer = GrpcPeer(self._server, self._transport)
            self._transport.set_protocol(peer)
            peer.data_received(self._held)
            return
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return
        length = 0
        for line in self._held[:end].split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(self._held) < end + 4 + length:
            return
        head, body = self._held[:end], self._held[end + 4 : end + 4 + length]
        self._held = self._held[end + 4 + length :]
        limit = self._server.behaviour.close_after
        if limit is not None and self._served >= limit:
            self.hang_up()
            return
        self._serve(head.split(b" ", 2)[:2], body)

    def _serve(self, what: list[bytes], body: bytes) -> None:
        method, path = what[0], what[1].partition(b"?")[0]
        if method == b"POST" and path in (b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"):
            try:
                ask = _decode_ask(body)
            except msgspec.DecodeError as error:
                self.write(http_answer("400 Bad Request", json.dumps({"error": {"message": str(error)}})))
                return
            self.asked = body
            self._infer(path, ask, self._server.look_up(body))
        elif method == b"POST" and path in truth_forms.FORMS:
            self._other(path, body)
        elif method == b"POST" and path.startswith(b"/v2/models/") and path.endswith(b"/infer"):
            self._infer(path, _Ask(), (PROMPT_TOKENS, 0))
        elif method == b"POST" and path in (b"/reset_prefix_cache", b"/flush_cache") and self._server.has_cache:
            self._server.empty_cache()
            self.write(http_answer("200 OK", "{}"))
        elif path == b"/version":
            self.write(http_answer("200 OK", json.dumps({"version": f"lynxbench {__version__}"})))
        elif path.startswith(b"/v2/models/") and path.endswith(b"/stats"):
            self.write(http_answer("200 OK", self._statistics(path.split(b"/")[3].decode("utf-8", "replace"))))
        elif path == b"/v2":
            about = {"name": "ground-truth", "version": __version__, "extensions": []}
            self.write(http_answer("200 OK", json.dumps(about)))
        elif path == b"/v1/models":
            model = '{"id":"ground-truth","object":"model","max_model_len":32768}'
            self.write(http_answer("200 OK", f'{{"object":"list","data":[{model}]}}'))
        elif path in (b"/health", b"/ping", b"/"):
            self.write(http_answer("200 OK", "{}"))
        elif path == b"/metrics":
            counters = {"ground_truth_requests": len(self._server.arrival)}
            if self._server.has_cache:
                counters["ground_truth:prefix_cache_queries"] = self._server.cache_queries
                counters["ground_truth:prefix_cache_hits"] = self._server.cache_hits
            text = "".join(f"# TYPE {name}_total counter\n{name}_total {n}\n" for name, n in counters.items())
            if self._server.behaviour.shows_queue:
                running, waiting = self._server.queue()
                text += f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
            self.write(http_answer("200 OK", text, "text/plain; version=0.0.4"))
        else:
            self.write(http_answer("404 Not Found", '{"error":{"message":"no such path"}}'))

    def _other(self, path: bytes, body: bytes) -> None:
        """A form beside chat; what it lacks is said as servers say it."""
        named, problem, ask = path in (truth_forms.RESPONSES, truth_forms.MESSAGES), "", _Ask()
        try:
            if path == truth_forms.TRANSCRIPTIONS:
                truth_forms.sound_s(body)
            else:
                ask = _decode_ask(body)
            if path in truth_forms.RERANK and not {"documents", "texts"} & json.loads(body).keys():
                problem = "Field required: documents"
        except (ValueError, msgspec.DecodeError) as error:
            problem = str(error)
        if problem:
            self.write(http_answer("400 Bad Request", json.dumps({"error": {"message": problem}})))
            return
        self.asked = body
        self._infer(path, ask, self._server.look_up(body) if named else (PROMPT_TOKENS, 0))

    def _infer(self, path: bytes, ask: _Ask, looked_up: tuple[int, int]) -> None:
        server = self._server
        number, outcome = server.admit()
        self._number = number
        if outcome is ServedOutcome.HTTP500:
            server.outcome[number] = outcome
            said = "a fault on demand"
            if server.behaviour.quotes:
                said += f": {self.asked.decode()}"
            self.write(http_answer("500 Internal Server Error", f'{{"error":{{"message":{json.dumps(said)}}}}}'))
            self.answered()
        elif outcome is ServedOutcome.STALL:
            server.outcome[number] = outcome
            self.write(_STREAM_HEAD, whole=True)
        else:
            generates = path.endswith((b"/completions", b"/responses", b"/messages"))
            bodily = outcome is ServedOutcome.WRONG and server.behaviour.fault in ("error-body", "other")
            answer = _Stream if ask.stream and generates and not bodily else _Whole
            answer(server, self, number, outcome, path, ask if generates else _Ask(max_tokens=1), looked_up).begin()

    def _statistics(self, model: str) -> str:
        """In Triton's form: all of the time is inference, unless slots made requests wait."""
        truth = self._server.truth()
        good = truth.outcome == ServedOutcome.OK
        served_ns = int((truth.last_ns - truth.arrival_ns)[good].sum())
        done = {"count": int(good.sum()), "ns": served_ns}
        stats = {"success": done, "compute_infer": done}
        counts = {"inference_count": done["count"], "execution_count": done["count"]}
        return json.dumps({"model_stats": [{"name": model, "version": "1", **counts, "inference_stats": stats}]})

    def write(self, data: bytes, whole: bool = False) -> None:
        """Send, past the transport's queue where possible, so that the log says when bytes left."""
        if self.closed:
            return
        if self._server.behaviour.split_writes and not whole and len(data) > 2:
            middle = len(data) // 2
            self._send(data[:middle])
            data = data[middle:]
        self._send(data)

    def _send(self, data: bytes) -> None:
        if not write_answer(self._transport, self._fd, data):
            self.closed = True

    def answered(self) -> None:
        """A whole answer was given."""
        self._served += 1
        self._number = -1

    def hang_up(self) -> None:
        """Close without another word."""
        self._number = -1
        self.closed = True
        self._transport.close()


class _Whole(_Stream):
    """An answer that is not streamed."""

    __slots__ = ()

    def begin(self) -> None:
        delay_ns = self._ttft_ns + (self._total - 1) * self._itl_ns
        if delay_ns == 0:
            self.step()
        else:
            self._server.schedule(self, self._base_ns + delay_ns)

    def step(self) -> int:
        server, number = self._server, self._number
        if self._peer.closed:
            return 0
        answer = http_answer("200 OK", self._body())
        server.first[number] = server.last[number] = perf_counter_ns()
        server.events[number] = 1
        if self._outcome is not ServedOutcome.DROP:
            self._peer.write(answer)
        self._over()
        return 0

    def _body(self) -> str:
        if self._fault in ("error-body", "other") or self._path in truth_forms.FORMS:
            return truth_forms.whole(self._path, self._peer.asked, self._counts(), self._fault)
        if self._path.startswith(b"/v2/"):
            output = '{"name":"output","datatype":"FP32","shape":[1],"data":[0.5]}'
            return f'{{"model_name":"ground-truth","model_version":"1","outputs":[{output}]}}'
        if self._path == b"/v1/embeddings":
            given = json.loads(self._peer.asked).get("input")
            texts = len(given) if isinstance(given, list) else 1
            vectors = ",".join(f'{{"object":"embedding","index":{i},"embedding":[0.1,0.2]}}' for i in range(texts))
            usage = f'{{"prompt_tokens":{texts * PROMPT_TOKENS},"total_tokens":{texts * PROMPT_TOKENS}}}'
            return f'{{"object":"list","data":[{vectors}],"usage":{usage}}}'
        text = json.dumps(self._server.behaviour.says or " the" * self._total)
        content = f'"message":{{"role":"assistant","content":{text}}}' if self._chat else f'"text":{text}'
        usage = usage_of(self._total, self._looked_up, self._server.behaviour.reasoning)
        return f'{{{COMMON},"choices":[{{"index":0,{content},"finish_reason":"length"}}],"usage":{usage}}}'


async def listen(server: GroundTruthServer, host: str, port: int) -> asyncio.Server:
    """Start to answer."""
    loop = asyncio.get_running_loop()
    server.start(loop)
    tls = None
    if server.behaviour.cert_file is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(server.behaviour.cert_file, server.behaviour.key_file)
        tls.set_alpn_protocols(["h2", "http/1.1"])
    return await loop.create_server(lambda: _Peer(server), host, port, backlog=4096, ssl=tls)
