"""A server that is never the limit: every completion is one prepared write of many events. `python instant.py TOKENS`.

A request costs it a search for the end of the head; the client has every event's JSON to parse. So whoever asks as fast
as answers come is held back by itself. It prints its address and serves until its standard input closes.
"""

import asyncio
import os
import sys
import threading

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
EVENT = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" lynx"}}]}\n\n'
USAGE = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}\n\n'


class Peer(asyncio.Protocol):
    """One connection; a client sends its next request only after the answer to the last."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, found, body = self._held.partition(b"\r\n\r\n")
        if not found:
            return
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0)
        if len(body) >= length:
            self._held = b""
            known = head.startswith(b"POST")
            self._transport.write(self._answer if known else b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


async def main(tokens: int) -> None:
    """Serve until standard input closes."""
    body = EVENT * tokens + USAGE % (tokens, tokens + 10) + b"data: [DONE]\n\n"
    answer = HEAD % len(body) + body
    server = await asyncio.get_running_loop().create_server(lambda: Peer(answer), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
