"""Tags and notes on the shared page: signed by a team's own key, taken from whoever may, shown and found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hosted import Answer, Caller, World, hosted, make_world, trust_all
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.statement import seal_entry
from lynxbench.ledger.bundle import export_bundle, import_bundle
from lynxbench.ledger.remarks import remarks_of
from lynxbench.model.entries import Entry, EntryBody, ResultContested, ResultNoted, ResultTagged
from lynxbench.record.recording import seal
from recording_teams import Team, make_team

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(make_world(tmp_path_factory.mktemp("remarks"), shapes=(), decisions=False)) as world:
        yield world


def tell(caller: Caller, envelope: Envelope) -> Answer:
    return caller.json("POST", "/api/v1/remarks", {"envelope": envelope.to_bytes().decode("ascii")})


def tagged(world: World, tag: str) -> list[str]:
    found = world.caller("reader").get(f"/api/v1/results?tag={tag}").json()["results"]
    return [row["result_id"] for row in found]


def test_a_tag_and_a_note_are_shown_and_found(place: World) -> None:
    name, other = place.results[0].result_id, place.results[1].result_id
    caller = place.caller("administrator")
    taken = tell(caller, seal(ResultTagged(result_id=name, put=("release-7", "golden")), place.team.key))
    assert taken.status == 200
    assert taken.json()["result_id"] == name
    again = seal(ResultNoted(result_id=name, text=f"measured beside a backup {SCRIPT}"), place.team.key)
    assert tell(caller, again).json() == tell(caller, again).json(), "the same entry is the same number"
    assert tagged(place, "golden") == [name]
    assert tagged(place, "never") == []
    shown = place.caller("reader").get(f"/api/v1/results/{name}").json()
    assert [(tag["tag"], tag["team"]) for tag in shown["tags"]] == [
        ("golden", "ml-platform"), ("release-7", "ml-platform"),
    ]  # fmt: skip
    assert [note["text"] for note in shown["notes"]] == [f"measured beside a backup {SCRIPT}"]
    reader = place.caller("reader")
    page = reader.get(f"/results/{name}").text
    assert "measured beside a backup &lt;script&gt;" in page
    assert SCRIPT not in page
    assert '<a href="/results?tag=golden">golden</a>' in page
    listed = reader.get("/results?tag=golden").text
    assert name[:12] in listed
    assert other[:12] not in listed
    assert "no result fits" in reader.get("/results?tag=never").text
    assert "backup" in reader.get("/search?q=backup").text


def test_only_who_may_contest_puts_one(place: World) -> None:
    name = place.results[2].result_id
    entry = seal(ResultTagged(result_id=name, put=("mine",)), place.team.key)
    assert [tell(place.caller(role), entry).status for role in ("reader", "submitter")] == [403, 403]
    assert tell(Caller(place.port), entry).status == 401
    assert tagged(place, "mine") == []
    assert tell(place.caller("contester"), entry).status == 200
    assert tagged(place, "mine") == [name]


def test_a_team_speaks_in_its_own_name_alone(place: World, tmp_path: Path) -> None:
    name = place.results[3].result_id
    stranger, unknown = place.caller("stranger"), make_team("elsewhere", tmp_path)

    def refused(caller: Caller, body: EntryBody, team: Team, status: int, words: str) -> None:
        said = tell(caller, seal(body, team.key))
        assert said.status == status
        assert words in said.json()["error"]["message"]

    body = ResultTagged(result_id=name, put=("stolen",))
    refused(stranger, body, place.team, 409, "infrastructure signs its own")
    refused(stranger, body, unknown, 422, "signed by no key that is registered")
    refused(stranger, ResultTagged(result_id="ab" * 32, put=("x",)), place.other, 404, "is not here; push it first")
    refused(stranger, ResultContested(result_id=name, reason="no"), place.other, 422, "only tags and notes")
    late = Entry(made_at=(datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="seconds"), body=body)
    assert tell(stranger, seal_entry(late, [place.other.key])).status == 422
    assert tell(stranger, seal(ResultTagged(result_id=name, put=("x",)), place.other.key)).status == 200
    taken = seal(ResultTagged(result_id=name, taken=("x",)), place.team.key)
    assert tell(place.caller("contester"), taken).status == 200
    assert tagged(place, "x") == [name], "another team's tag stays"
    assert tagged(place, "stolen") == []


def test_they_travel_with_their_result_and_need_the_same_right_there(place: World, tmp_path: Path) -> None:
    result = place.results[4]
    bundle = place.team.bundle(result)
    with place.team.open() as ledger:
        ledger.log.append(seal(ResultTagged(result_id=result.result_id, put=("pushed",)), place.team.key))
        path = tmp_path / "tagged.lynx"
        key, trust = place.team.key, place.team.keyring.trust
        export_bundle(ledger, [result.result_id], path, key, trust, datetime.now(UTC))
    assert place.caller("submitter").submit(bundle).status in (200, 201)
    refused = place.caller("submitter").submit(path.read_bytes())
    assert refused.status == 409
    assert "holds a new tag" in refused.json()["error"]["message"]
    assert place.caller("administrator").submit(path.read_bytes()).status in (200, 201)
    assert set(tagged(place, "pushed")) == {result.result_id}
    puller = make_team("puller", tmp_path)
    trust_all(place, puller)
    pulled = tmp_path / "pulled.lynx"
    pulled.write_bytes(place.caller("reader").get(f"/api/v1/results/{result.result_id}/bundle").body)
    with puller.open() as ledger:
        import_bundle(ledger, pulled, puller.keyring.trust)
        remarks = remarks_of(ledger.log, [result.result_id], puller.keyring.trust)[result.result_id]
    assert remarks.tag_names == ("pushed",)
