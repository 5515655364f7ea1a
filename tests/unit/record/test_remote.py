"""A bundle goes by one request where the server takes it so, and in pieces otherwise: to earlier ones as before."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lynxbench.errors import EvidenceInvalid, Refused
from lynxbench.record import remote as module
from lynxbench.record.remote import WHOLE, Remote, Unreachable, Unusable

DATA = b"a bundle" * 1000
OUTCOME = {"entries": 3, "new": 2}
Said = tuple[int, object] | None


def problem(status: int, message: str = "no", exit_code: int | None = None) -> Said:
    ends = {} if exit_code is None else {"exit_code": exit_code}
    return status, {"error": {"status": status, "message": message, **ends}}


class Standing:
    """A server that takes pieces, and answers a whole bundle as it is told; None: it hangs up."""

    def __init__(self, whole: Callable[[int], Said]) -> None:
        self.asked: list[str] = []
        self.whole, self.received, self.sent_whole = whole, b"", 0

    def answer(self, method: str, path: str, body: bytes) -> Said:
        self.asked.append(f"{method} {path}")
        if path.startswith(WHOLE):
            self.sent_whole += 1
            return self.whole(self.sent_whole)
        if method == "PATCH":
            self.received += body
        elif path == "/api/v1/uploads":
            assert json.loads(body) == {"sha256": hashlib.sha256(DATA).hexdigest(), "size_bytes": len(DATA)}
        elif path.endswith("/finish"):
            assert self.received == DATA
            return 200, {"upload_id": "u", "state": "done", "received_bytes": len(DATA), "outcome": OUTCOME}
        return 200, {"upload_id": "u", "state": "open", "received_bytes": len(self.received), "outcome": None}


@contextmanager
def listening(standing: Standing) -> Iterator[Remote]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            said = standing.answer(self.command, self.path, body)
            if said is None:
                return
            data = json.dumps(said[1]).encode()
            self.send_response(said[0])
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_PATCH(self) -> None:
            self.do_POST()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Remote(f"http://127.0.0.1:{server.server_address[1]}", "token")
        server.shutdown()
        thread.join()


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.001)
    (tmp_path / "b.lynx").write_bytes(DATA)
    return tmp_path / "b.lynx"


def pieces_of(standing: Standing) -> list[str]:
    return [asked for asked in standing.asked if "/uploads" in asked]


def test_one_request_is_enough(bundle: Path) -> None:
    standing = Standing(lambda _: (200, {"outcome": OUTCOME}))
    with listening(standing) as remote:
        assert remote.push(bundle, "run 1") == OUTCOME
    assert standing.asked == [f"POST {WHOLE}?run=run%201"]


@pytest.mark.parametrize("status", [404, 405, 411, 413, 415, 501])
def test_an_earlier_server_gets_pieces(bundle: Path, status: int) -> None:
    standing = Standing(lambda _: problem(status))
    with listening(standing) as remote:
        assert remote.push(bundle) == OUTCOME
    assert standing.sent_whole == 1
    assert [asked.split()[0] for asked in pieces_of(standing)] == ["POST", "PATCH", "POST"]


def test_a_large_one_goes_in_pieces_at_once(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PUSHED_BYTES", len(DATA) - 1)
    standing = Standing(lambda _: problem(500))
    with listening(standing) as remote:
        assert remote.push(bundle) == OUTCOME
    assert standing.sent_whole == 0


@pytest.mark.parametrize("said", [None, problem(503), problem(429), problem(502)])
def test_what_breaks_off_is_sent_whole_again_and_then_in_pieces(bundle: Path, said: Said) -> None:
    once = Standing(lambda turn: said if turn == 1 else (200, {"outcome": OUTCOME}))
    with listening(once) as remote:
        assert remote.push(bundle) == OUTCOME
    assert (once.sent_whole, pieces_of(once)) == (2, [])
    always = Standing(lambda _: said)
    with listening(always) as remote:
        assert remote.push(bundle) == OUTCOME
    assert always.sent_whole == module.WHOLE_ATTEMPTS
    assert always.received == DATA


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (problem(401), Refused),
        (problem(403), Refused),
        (problem(409, "signed by others", 3), Refused),
        (problem(422, "does not hold", 5), EvidenceInvalid),
        (problem(422, "too large", 2), Unusable),
    ],
)
def test_a_refusal_is_not_tried_another_way(bundle: Path, said: Said, kind: type[Exception]) -> None:
    standing = Standing(lambda _: said)
    with listening(standing) as remote, pytest.raises(kind):
        remote.push(bundle)
    assert (standing.sent_whole, pieces_of(standing)) == (1, [])


def test_a_run_that_is_not_there_is_no_missing_route(bundle: Path) -> None:
    standing = Standing(lambda _: problem(404, "no run", 2))
    with listening(standing) as remote, pytest.raises(Exception, match="no run") as caught:
        remote.push(bundle, "gone")
    assert not isinstance(caught.value, Unreachable)
    assert pieces_of(standing) == []
