"""A server of the OpenAI language that starts in a tenth of a second, and the faults that a start can have.

Run as a file: `tiny_server.py --port N [--fault WORD] [--say TEXT] [--service SECONDS --slots N]`: so many requests at
a time, each for so long. Other options are taken and mean nothing; `--no-such` is none of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("never", "code", "first", "deaf", "children", "loading")
"""Never listens; ends at once; dies of its first request; ignores SIGTERM; leaves children; says 503 for a while."""


def option(name: str, usual: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else usual


class Answers(BaseHTTPRequestHandler):
    """Health, and one whole answer to anything that is posted."""

    began = time.monotonic()

    def do_GET(self) -> None:
        loading = option("--fault") == "loading" and time.monotonic() - self.began < 0.5
        known = self.path == "/health"
        self.send(503 if loading else 200 if known else 404, {"argv": sys.argv[1:]})

    slots = threading.Semaphore(int(option("--slots", "1000")))

    def do_POST(self) -> None:
        if option("--fault") == "first":
            print("illegal memory access", file=sys.stderr, flush=True)
            os._exit(9)
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.slots:
            time.sleep(float(option("--service", "0")))
        usage = {"prompt_tokens": 8, "completion_tokens": 2}
        self.send(200, {"choices": [{"message": {"content": "so"}, "text": "so"}], "usage": usage})

    def send(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main() -> None:
    fault = option("--fault")
    if "--no-such" in sys.argv:
        sys.exit("no such option: --no-such")
    print(option("--say", "tiny server"), flush=True)
    if fault == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fault == "code":
        sys.exit("no such model")
    if fault == "children":
        for _ in range(2):  # one in a session of its own whose parent ends at once, as daemons do
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    signal.pause()
                os._exit(0)
    if fault == "never":
        signal.pause()
    ThreadingHTTPServer(("127.0.0.1", int(option("--port"))), Answers).serve_forever()


if __name__ == "__main__":
    main()
