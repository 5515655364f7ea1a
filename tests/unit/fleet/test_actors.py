"""What Ray raises is one line of ours: which node, and what became of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lynxbench.errors import BadInput, CannotRun
from lynxbench.fleet.actors import Actor, ActorLost


class RayError(Exception):
    pass


class GetTimeoutError(RayError, TimeoutError):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__("a traceback of many lines")
        self.cause = cause


class FakeRay:
    """Starts nothing; every answer is the error that it was made with."""

    exceptions = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError, RayTaskError=RayTaskError)

    def __init__(self, raised: Exception) -> None:
        self.raised = raised

    def remote(self, **_: object) -> Any:
        method = SimpleNamespace(remote=lambda *_: "a reference")
        handle = SimpleNamespace(look=method)
        started = SimpleNamespace(remote=lambda *_: handle)
        return lambda kind: SimpleNamespace(options=lambda **_: started)

    def get(self, reference: object, timeout: float) -> None:
        raise self.raised


def answered(raised: Exception) -> None:
    """Call an actor of which this is the answer."""
    fleet: Any = SimpleNamespace(ray=FakeRay(raised), pinned=lambda node_id: None)
    node: Any = SimpleNamespace(name="node-1", node_id="ab")
    Actor(fleet, node, object, (), cpus=1.0, gpus=0.0).call("look", timeout_s=30.0)


def test_one_that_does_not_answer_is_named_with_how_long_was_waited() -> None:
    with pytest.raises(ActorLost, match=r"^node-1: no answer within 30 s: it is busier than that, or gone$"):
        answered(GetTimeoutError("Get timed out: some object(s) not ready."))


def test_one_whose_process_ended_is_lost() -> None:
    with pytest.raises(ActorLost, match=r"^node-1: the actor died"):
        answered(RayError("the actor died\nunexpectedly"))


def test_its_own_deliberate_error_is_raised_as_it_was() -> None:
    with pytest.raises(BadInput, match=r"^no such contract$"):
        answered(RayTaskError(BadInput("no such contract")))


def test_any_other_error_of_it_is_one_line() -> None:
    with pytest.raises(CannotRun, match=r"^node-1: KeyError: 'x'$"):
        answered(RayTaskError(KeyError("x")))
