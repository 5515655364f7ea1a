"""One request and its answer: over plain HTTP and TLS, refused, cut off, late, and sent elsewhere."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lynxbench.https import request


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(302 if self.path == "/elsewhere" else 200)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("X-Path", self.path)
        self.end_headers()
        self.wfile.write(body + self.headers["X-Word"].encode())

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening(context: ssl.SSLContext | None = None) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(timeout=5)
        server.server_close()


@pytest.mark.parametrize("begun", [b"HTTP/1.1 200 OK\r\nX-Word: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_trickles_for_ever_ends_in_time(begun: bytes) -> None:
    """Every wait is short, in its head or in its body; all of them together would have no end."""
    over = threading.Event()

    def trickle() -> None:
        with socket_.accept()[0] as asked:
            asked.sendall(begun)
            while not over.wait(0.05):
                try:
                    asked.sendall(b": ping")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as socket_:
        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        begin_s = time.monotonic()
        with pytest.raises(TimeoutError, match=r"no whole answer within 0\.4 s"):
            request("GET", f"http://127.0.0.1:{socket_.getsockname()[1]}/", timeout_s=10, whole_s=0.4)
        took_s = time.monotonic() - begin_s
        over.set()
        thread.join(timeout=5)
    assert took_s < 5


def test_the_whole_answer_comes_back_and_a_redirect_is_one() -> None:
    with listening() as url:
        answer = request("POST", f"{url}/a?b=c", b"body ", {"X-Word": "word"}, timeout_s=600)
        assert (answer.status, answer.body, answer.headers["x-path"]) == (200, b"body word", "/a?b=c")
        assert answer.is_good
        assert request("POST", url, b"12345678", {"X-Word": ""}, timeout_s=600, most_bytes=3).body == b"123"
        elsewhere = request("POST", f"{url}/elsewhere", b"", {"X-Word": ""}, timeout_s=600)
        assert (elsewhere.status, elsewhere.is_good) == (302, False)


def test_a_certificate_is_checked_unless_that_is_declined(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {cert} -days 2 -subj /CN=127.0.0.1"
    subprocess.run([*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with listening(context) as url:
        with pytest.raises(ssl.SSLCertVerificationError):
            request("POST", url, b"", {"X-Word": "x"}, timeout_s=600)
        assert request("POST", url, b"", {"X-Word": "x"}, timeout_s=600, ca_file=str(cert)).body == b"x"
        assert request("POST", url, b"", {"X-Word": "x"}, timeout_s=600, verify=False).body == b"x"


def test_no_answer_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(TimeoutError):
            request("GET", url, timeout_s=0.2)

        def garbage() -> None:
            for _ in range(2):  # the first is the one that timed out
                peer, _address = taken.accept()
                peer.sendall(b"no HTTP at all\r\n\r\n")
                peer.close()

        thread = threading.Thread(target=garbage, daemon=True)
        thread.start()
        with pytest.raises(ConnectionError):
            request("GET", url, timeout_s=600)
        thread.join(timeout=5)
    with pytest.raises(ConnectionRefusedError):
        request("GET", url, timeout_s=600)


@pytest.mark.parametrize("url", ["bench.example", "ftp://bench.example/x", "https://"])
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(ValueError, match="no address"):
        request("GET", url, timeout_s=1)
