"""Bundles wait for each other only while others are taken in; each is told its own outcome, and none waits for ever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from lynxbench.errors import BadLedger, LynxbenchError, Refused
from lynxbench.ledger.archive import write_archive
from lynxbench.server.administration import AuditLog, ChangeAuthor
from lynxbench.server.ingest import Outcome
from lynxbench.server.intake_queue import MOST_TOGETHER, STOPPED, IntakeQueue, WaitingBundle
from lynxbench.server.observing import ServerMetrics
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.uploads import DONE, PushedBundle, Taken, Upload, Uploads
from lynxbench.watch.store import Store

WHO = Principal("agent", "alpha", frozenset({AccessScope.SUBMIT}), "token")
BY = ChangeAuthor("agent (alpha)", "127.0.0.1")
WAIT_S = 60.0


class Scene:
    """A queue over tables of its own, which takes bundles in as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(f"sqlite:///{folder}/server.sqlite")
        self.uploads = Uploads(self.store, folder / "uploads", 1 << 20)
        self.audit, self.metrics = AuditLog(self.store), ServerMetrics()
        self.together: list[int] = []
        self.arrived = 0
        self.decide: Callable[[str], Outcome] = lambda name: Taken([name], 2, 1, [name])
        self.gate, self.busy = threading.Event(), threading.Event()
        self.gate.set()
        log = logging.getLogger("intake of a test")
        given = (self.store, self.uploads, self.audit, self.metrics)
        self.queue = IntakeQueue(*given, self._take, self._arrived, log)

    def _take(self, waiting: Sequence[WaitingBundle]) -> list[Outcome]:
        self.together.append(len(waiting))
        self.busy.set()
        assert self.gate.wait(WAIT_S)
        return [self.decide(one.pushed.manifest) for one in waiting]

    def _arrived(self) -> None:
        self.arrived += 1

    def received(self, number: int) -> PushedBundle:
        path = self.folder / "b.lynx"
        write_archive(path, [("manifest.json", b"%d" % number)])
        pushed = self.uploads.receive("alpha", path.read_bytes(), WHO.label)
        assert isinstance(pushed, PushedBundle)
        return pushed

    def submit(self, number: int) -> Future[Upload]:
        return self.queue.submit(self.received(number), WHO, BY, None)

    def parts(self) -> list[Path]:
        return list((self.folder / "uploads").iterdir())

    def audited(self) -> list[tuple[str, str, str]]:
        return [(line.action, line.outcome, line.detail) for line in self.audit.list()][::-1]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.gate.set()
    made.queue.stop()
    made.store.close()


def test_who_comes_meanwhile_is_taken_in_together(scene: Scene) -> None:
    scene.gate.clear()
    first = scene.submit(0)
    assert scene.busy.wait(WAIT_S)
    rest = [scene.submit(number) for number in range(1, MOST_TOGETHER + 3)]
    assert scene.uploads.count_open() == MOST_TOGETHER + 3
    scene.gate.set()
    uploads = [made.result(WAIT_S) for made in (first, *rest)]
    assert scene.together == [1, MOST_TOGETHER, 2]
    assert scene.arrived == 3
    assert {upload.state for upload in uploads} == {DONE}
    assert [upload.outcome.new_results for upload in uploads if upload.outcome] == [[u.sha256] for u in uploads]
    assert scene.audited() == [("submit", "ok", "")] * len(uploads)
    assert (scene.parts(), scene.uploads.count_open()) == ([], 0)
    assert scene.metrics.submissions._value.get() == len(uploads)
    assert all(scene.uploads.get(upload.upload_id, "alpha") == upload for upload in uploads)


def test_each_is_told_its_own_outcome(scene: Scene) -> None:
    scene.gate.clear()
    first = scene.submit(0)
    assert scene.busy.wait(WAIT_S)
    wrong = scene.received(1)
    scene.decide = lambda name: Refused("not yours") if name == wrong.manifest else Taken([name], 2, 1, [name])
    made = [scene.submit(2), scene.queue.submit(wrong, WHO, BY, None), scene.submit(3)]
    scene.gate.set()
    assert first.result(WAIT_S).state == made[0].result(WAIT_S).state == made[2].result(WAIT_S).state == DONE
    with pytest.raises(Refused, match="not yours"):
        made[1].result(WAIT_S)
    assert scene.audited()[1:] == [("submit", "ok", ""), ("submit", "refused", "not yours"), ("submit", "ok", "")]
    assert scene.parts() == []
    assert isinstance(scene.received(1), PushedBundle), "nothing is remembered of it"


def test_it_outlives_what_nobody_expected(scene: Scene) -> None:
    def broken(_: str) -> Outcome:
        raise ZeroDivisionError

    before, scene.decide = scene.decide, broken
    with pytest.raises(ZeroDivisionError):
        scene.submit(0).result(WAIT_S)
    scene.decide = before
    assert scene.submit(1).result(WAIT_S).state == DONE
    assert scene.parts() == []


def test_a_table_that_cannot_be_written_is_said(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise BadLedger("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "add", full)
        with pytest.raises(BadLedger, match="the disk is full"):
            scene.submit(0).result(WAIT_S)
    assert scene.arrived == 1, "the ledger has it: pages show it"
    assert scene.submit(0).result(WAIT_S).state == DONE, "sent again it is written down"


def test_who_left_is_taken_in_all_the_same(scene: Scene) -> None:
    scene.gate.clear()
    left = scene.submit(0)
    assert scene.busy.wait(WAIT_S)
    assert left.cancel()
    scene.gate.set()
    assert scene.submit(1).result(WAIT_S).state == DONE
    assert scene.audited() == [("submit", "ok", "")] * 2
    assert scene.parts() == []


def test_whoever_waits_when_it_ends_is_told(scene: Scene) -> None:
    scene.gate.clear()
    first = scene.submit(0)
    assert scene.busy.wait(WAIT_S)
    waiting = scene.submit(1)
    ending = threading.Thread(target=scene.queue.stop)
    ending.start()
    scene.gate.set()
    ending.join()
    assert first.result(WAIT_S).state == DONE
    for made in (waiting, scene.submit(2)):
        with pytest.raises(LynxbenchError, match=STOPPED.partition(";")[0]):
            made.result(WAIT_S)
    assert scene.parts() == []
