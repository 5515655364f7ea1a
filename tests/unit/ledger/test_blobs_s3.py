"""The object store's own protocol: s3fs against a small server that speaks it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from lynxbench.errors import BadLedger, EvidenceInvalid
from lynxbench.ledger.blobs import UrlBlobs

pytest.importorskip("s3fs", reason="pip install 'lynxbench[s3]'")

EMPTY_LIST = (
    b'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Name>bucket</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
)


class _Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes] = {}
    full = False

    def do_PUT(self) -> None:
        body = self._body()
        if self.full:
            self._answer(507, b"")
            return
        self.objects[self._key()] = body
        self._answer(200, b"")

    def do_GET(self) -> None:
        if "list-type" in self.path:
            self._answer(200, EMPTY_LIST)
        else:
            found = self.objects.get(self._key())
            self._answer(404 if found is None else 200, found or b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Be quiet."""

    def _key(self) -> str:
        return urlsplit(self.path).path

    def _body(self) -> bytes:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return data
        size, rest = data.split(b"\r\n", 1)  # one chunk, then a trailer with its checksum
        return rest[: int(size.split(b";")[0], 16)]

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.md5(body).hexdigest()}"')
        self.send_header("Last-Modified", "Sun, 15 Nov 2026 09:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[UrlBlobs]:
    _Store.objects, _Store.full = {}, False
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Store)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_MAX_ATTEMPTS", "1"),
        ("NO_PROXY", "127.0.0.1"),
    ):
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    try:
        yield UrlBlobs("s3://bucket/ledger")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
@pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
def test_documents_go_to_an_object_store_and_come_back_hashed(store: UrlBlobs) -> None:
    data = b"samples" * 1000
    name = hashlib.sha256(data).hexdigest()
    assert not store.has(name)
    assert store.put(data) == name
    assert _Store.objects == {f"/bucket/ledger/{name[:2]}/{name[2:]}": data}
    assert store.get(name) == data
    _Store.objects[f"/bucket/ledger/{name[:2]}/{name[2:]}"] = b"changed" * 1000
    with pytest.raises(EvidenceInvalid, match="the document was changed"):
        store.get(name)
    _Store.full = True
    with pytest.raises(BadLedger, match="the document was not kept"):
        store.put(b"more")
