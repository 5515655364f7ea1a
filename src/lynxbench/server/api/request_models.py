"""What the API takes: every field bounded, nothing unknown, no text that a database cannot hold."""

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST_NUMBER = 2**53 - 1
MOST_EVENTS = 200
MOST_ENVELOPE = 1 << 16
"""Characters of a registration's envelope: its documents follow with the result."""
MOST_PLACES = 10_000
"""Runs that an agent carries out at a time: nodes of its fleet."""


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("holds a zero byte")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("is not a text that can be written") from None
    return text


def Text(most: int, least: int = 1) -> Any:  # noqa: N802  a type with two numbers
    """A text of bounded length."""
    return Annotated[str, Field(min_length=least, max_length=most), AfterValidator(_storable)]


Seq = Annotated[int, Path(ge=0, le=MOST_NUMBER)]
Named = Annotated[str, Path(min_length=4, max_length=80)]
Analysis = Annotated[str, Path(min_length=4, max_length=200)]
Short = Annotated[str, Path(min_length=1, max_length=80)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Word = Annotated[str | None, Query(max_length=80)]
PushedRun = Annotated[str | None, Query(max_length=40)]
"""The scheduled run that a bundle came from."""
Asked = Annotated[str, Query(min_length=4, max_length=80)]


class RequestBody(BaseModel):
    """A body: strict, and without unknown keys."""

    model_config = ConfigDict(extra="forbid")


class NewUpload(RequestBody):
    """A bundle that is going to be sent."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Field(ge=1, le=MOST_NUMBER)]


class NewRemark(RequestBody):
    """A tag or a note: the signed envelope of its entry, in its one form."""

    envelope: Text(MOST_ENVELOPE)  # type: ignore[valid-type]


class NewRegistration(RequestBody):
    """A run that is about to be measured: the signed envelope of its registration, in its one form."""

    envelope: Text(MOST_ENVELOPE)  # type: ignore[valid-type]


class FinishUpload(RequestBody):
    """The bundle is whole."""

    run: Annotated[str, Field(max_length=40)] | None = None
    """The scheduled run that it came from."""


class NewSchedule(RequestBody):
    """A contract on a timetable."""

    timetable: Text(120)  # type: ignore[valid-type]
    contract: dict[str, Any]
    agents: Annotated[list[Text(63)], Field(max_length=100)] = []  # type: ignore[valid-type]


class Poll(RequestBody):
    """An agent asks what is due."""

    version: Text(40) = "unknown"  # type: ignore[valid-type]
    places: Annotated[int, Field(ge=1, le=MOST_PLACES)] = 1


class LiveSample(RequestBody):
    """One moment of a run."""

    at_s: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    phase: Text(40)  # type: ignore[valid-type]
    label: Text(120, 0) = ""  # type: ignore[valid-type]
    value: Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)] | None = None
    iterations: Annotated[int, Field(ge=0, le=MOST_NUMBER)] = 0


class Live(RequestBody):
    """What a run says while it runs."""

    events: Annotated[list[LiveSample], Field(max_length=MOST_EVENTS)] = []
    node: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,47}$")] | None = None
    """Where in the agent's fleet the run is."""


class EndRun(RequestBody):
    """What came of a run."""

    state: Annotated[str, Field(pattern="^(done|failed)$")]
    said: Text(2000, 0) = ""  # type: ignore[valid-type]
    result_id: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None


class NewKey(RequestBody):
    """The card of a team's public key, as `lynxbench key export` writes it."""

    card: Text(16_384)  # type: ignore[valid-type]


class Why(RequestBody):
    """A reason."""

    reason: Text(1000)  # type: ignore[valid-type]


class NewUser(RequestBody):
    """Somebody who may come in."""

    name: Text(63)  # type: ignore[valid-type]
    team: Text(63)  # type: ignore[valid-type]
    scopes: Annotated[list[Text(20)], Field(min_length=1, max_length=4)]  # type: ignore[valid-type]
    password: Text(200) | None = None  # type: ignore[valid-type]


class NewToken(RequestBody):
    """A token of a user."""

    user: Text(63)  # type: ignore[valid-type]
    label: Text(120)  # type: ignore[valid-type]
    scopes: Annotated[list[Text(20)], Field(min_length=1, max_length=4)]  # type: ignore[valid-type]
    days: Annotated[float, Field(gt=0, le=3650, allow_inf_nan=False)] | None = None


class NewContact(RequestBody):
    """Where an owner is reached."""

    owner: Text(200)  # type: ignore[valid-type]
    channel: Annotated[str, Field(pattern="^(webhook|mail|otlp)$")]
    address: Text(2000)  # type: ignore[valid-type]
    secret: Text(64) | None = None  # type: ignore[valid-type]


class SignedEntries(RequestBody):
    """What `lynxbench contract sign` signed: the contract's text, and the signature under it."""

    entries: Annotated[list[Text(1_000_000)], Field(min_length=1, max_length=8)]  # type: ignore[valid-type]


class Claim(RequestBody):
    """A claim to be linted."""

    text: Text(100_000)  # type: ignore[valid-type]
