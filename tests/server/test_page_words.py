"""What a page says of evidence that falls short: no stronger word than the command line has for it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compared import make_attribution, make_contract, make_executor, make_precision, make_result
from hosted import World, hosted, make_world, plant_notice
from lynxbench.model.entries import DecisionTaken, EntryBody, ResultContested, ResultRetracted
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.record.recording import seal
from lynxbench.server.page_cache import OLDEST_S
from lynxbench.server.rights import API
from lynxbench.watch.store import now_text
from recording_teams import OTHER, Team, canonical, made_result, make_team, record

OWNER = "ML platform engineering"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server of this module's own: results come and are taken back."""
    with hosted(make_world(tmp_path_factory.mktemp("words"), shapes=(), decisions=False)) as listening:
        yield listening


def anew(world: World) -> None:
    """Pages may lag behind the log for some seconds; here none does."""
    world.server.arrived()
    world.server.cache._cached.clear()


def kept(world: World, result: Result) -> Result:
    """A result of the team, in the server's ledger."""
    held = record(world.server.ledger, result, world.team.key)
    anew(world)
    return held


def say(world: World, team: Team, body: EntryBody) -> int:
    """An entry that a team signed, in the server's ledger."""
    seq = world.server.ledger.log.append(seal(body, team.key))
    anew(world)
    return seq


def row_of(page: str, contract: str) -> str:
    """The text of a contract's row."""
    rows = [row for row in page.split("<tr") if f">{contract}<" in row]
    assert len(rows) == 1, contract
    return " ".join(re.sub(r"<[^>]*>", " ", f"<tr{rows[0]}").split())


def blaming(name: str) -> Result:
    """A sound run that blames an owner."""
    named = make_attribution(sentence="software-bound: launches take 60 % of a step")
    parts = (make_precision(attribution=named),)
    result = make_result(contract=make_contract(name=name), per_precision=parts, attribution=named)
    return result.model_copy(update={"run_id": f"run-{name}"}).sealed()


@pytest.mark.parametrize(("by", "word"), [("team", "retracted"), ("other", "contested")])
def test_the_overview_says_what_speaks_against_the_latest_figure(place: World, by: str, word: str) -> None:
    name = f"spoken-against-{word}"
    held = [kept(place, made_result(number, name=name)) for number in range(18)]
    kept_row = row_of(place.caller("reader").get("/").text, name)
    assert "no change of level" in kept_row
    made = ResultRetracted if by == "team" else ResultContested
    say(place, getattr(place, by), made(result_id=held[-1].result_id, reason="the fans were off"))
    for address in ("/", "/contracts"):
        told = row_of(place.caller("reader").get(address).text, name)
        assert f"latest result {word}" in told
        assert f"fp32 {word}" in told, "beside its figure, too"
        assert "no change of level" not in told
    page = place.caller("reader").get(f"/contracts/{held[0].contract_id}").text
    assert f"latest result {word}" in page


def test_a_retracted_result_is_bound_by_nothing_and_blames_nobody(place: World) -> None:
    held = kept(place, blaming("blames"))
    address = f"/results/{held.result_id}"
    assert OWNER in place.caller("reader").get(address).text, "otherwise this shows nothing"
    assert row_of(place.caller("reader").get("/").text, "blames").count("–") < 2
    say(place, place.team, ResultRetracted(result_id=held.result_id, reason="the wrong weights"))
    page = place.caller("reader").get(address).text
    assert "nobody is blamed" in page
    verdict = page[page.index("nobody is blamed") - 2000 : page.index("nobody is blamed") + 2000]
    assert OWNER not in re.sub(r"<[^>]*>", " ", verdict)
    assert "launch" not in row_of(place.caller("reader").get("/").text, "blames")


def test_a_void_latest_result_is_called_so_on_the_page_of_its_contract(place: World) -> None:
    for number in range(6):
        first = kept(place, made_result(number, name="ends-void"))
    void = Validity(verdict=ValidityVerdict.VOID, reasons=("too few samples",))
    last = made_result(6, name="ends-void")
    parts = tuple(part.model_copy(update={"validity": void}) for part in last.per_precision)
    kept(place, last.model_copy(update={"validity": void, "per_precision": parts}).sealed())
    assert "latest result void" in place.caller("reader").get(f"/contracts/{first.contract_id}").text


def test_another_teams_retraction_is_called_what_it_comes_to(place: World) -> None:
    held = kept(place, made_result(0, name="taken-from"))
    seq = say(place, place.other, ResultRetracted(result_id=held.result_id, reason="it shames us"))
    caller = place.caller("reader")
    overview = " ".join(re.sub(r"<[^>]*>", " ", caller.get("/").text).split())
    assert f"Retraction without effect result {held.result_id[:12]} by {OTHER} : it shames us" in overview
    assert "retraction without effect" in caller.get("/ledger").text
    assert caller.get(f"{API}/results/{held.result_id}").json()["standing"]["retracted"] == []
    say(place, place.team, ResultRetracted(result_id=held.result_id, reason="our own mistake"))
    overview = " ".join(re.sub(r"<[^>]*>", " ", caller.get("/").text).split())
    assert f"Retracted result {held.result_id[:12]} by {place.team.name} : our own mistake" in overview
    assert caller.get(f"/ledger/{seq}").status == 200


def open_notices(world: World, contract: Result, many: int, closed_by: str | None = None) -> None:
    """Regressions of one contract."""
    for number in range(many):
        name = f"{contract.contract.name}-{number}-{closed_by}"
        plant_notice(world, name, contract, closed_at=closed_by and now_text(), closed_by=closed_by)
    anew(world)


def test_an_old_regression_that_is_still_open_is_not_lost_behind_newer_ones(place: World) -> None:
    old = kept(place, made_result(0, name="long-slow"))
    open_notices(place, old, 1)
    open_notices(place, old, 12, "acknowledged by ada")
    page = place.caller("reader").get(f"/contracts/{old.contract_id}").text
    assert "Needs attention" in page
    open_notices(place, kept(place, made_result(0, name="often-slow")), 15)
    overview = place.caller("reader").get("/").text
    assert "regressed" in row_of(overview, "long-slow")
    assert "4 further regressions" in overview
    assert "regressed" in row_of(place.caller("reader").get("/contracts").text, "long-slow")


def test_a_decision_says_how_many_of_its_results_are_in_doubt_today(place: World) -> None:
    held = [kept(place, made_result(number, name="bought-on")) for number in range(3)]
    cites = tuple(result.result_id for result in held)
    seq = say(place, place.team, DecisionTaken(question="Which?", contract_id=None, answer="Buy four", cites=cites))
    caller = place.caller("reader")
    assert "in doubt today" not in caller.get(f"/decisions/{seq}").text
    say(place, place.team, ResultRetracted(result_id=cites[1], reason="the wrong card"))
    for address in (f"/decisions/{seq}", "/decisions"):
        assert "3, " in caller.get(address).text
        assert "1 in doubt today" in caller.get(address).text


def test_what_a_short_log_cannot_show_is_not_called_good(place: World) -> None:
    contract = place.results[0].contract_id
    log = "".join(json.dumps({"arrival_s": n, "input_tokens": 10 + n, "output_tokens": 4}) + "\n" for n in range(2))
    answer = place.caller("submitter").ask("POST", f"{API}/contracts/{contract}/likeness", log.encode())
    assert answer.status == 201, answer.text
    verdicts = {one["verdict"] for one in answer.json()["dimensions"]}
    unshown = verdicts - {"like production", "differs"}
    assert unshown, "otherwise this shows nothing"
    page = place.caller("reader").get(f"/contracts/{contract}").text
    for word in unshown:
        assert re.search(rf'class="[^"]*warn[^"]*">{word}<', page), word
        assert not re.search(rf'class="[^"]*good[^"]*">{word}<', page), word


def test_a_key_that_is_trusted_since_counts_in_what_was_shown_before(place: World, tmp_path: Path) -> None:
    unknown = make_team("newcomers", tmp_path)
    held = [record(place.server.ledger, made_result(number, name="newcome"), unknown.key) for number in range(2)]
    anew(place)
    caller, address = place.caller("reader"), f"{API}/compare?a={held[0].result_id}&b={held[1].result_id}"
    contract = f"/contracts/{held[0].contract_id}"
    assert "signed by nobody you trust" in caller.get(address).text
    assert "latest result untrusted" in caller.get(contract).text
    place.server.access.add_team(unknown.name)
    card = canonical(unknown.keyring.keys.card(unknown.name).model_dump_json().encode()).decode()
    assert place.caller("administrator").json("POST", f"{API}/keys", {"card": card}).status == 201
    until = time.monotonic() + 2 * OLDEST_S
    while "signed by nobody you trust" in caller.get(address).text or "untrusted" in caller.get(contract).text:
        assert time.monotonic() < until, "it is shown as it was before for ever"
        time.sleep(0.2)


def test_the_series_as_a_file_says_which_results_are_doubtful(place: World) -> None:
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("the fans were off",))
    last = made_result(1, name="doubted-file")
    parts = tuple(part.model_copy(update={"validity": doubt}) for part in last.per_precision)
    kept(place, made_result(0, name="doubted-file"))
    held = kept(place, last.model_copy(update={"validity": doubt, "per_precision": parts}).sealed())
    rows = place.caller("reader").get(f"/contracts/{held.contract_id}/series.csv").text.splitlines()
    assert rows[0].endswith(",unit,doubt,agreement")
    assert [row.split(",")[-2] for row in rows[1:]] == ["", "doubtful"]


def test_no_answer_is_kept_between_readers(place: World) -> None:
    for address in ("/", f"{API}/results", f"{API}/whoami", "/metrics", "/signin", "/results/nothing-such"):
        kept_by = place.caller("reader").get(address).headers["cache-control"]
        assert "private" in kept_by or "no-store" in kept_by, address


def test_a_name_as_long_as_an_id_means_the_newest_each_time(place: World) -> None:
    name = "n" * 62
    for number in range(2):
        held = record(place.server.ledger, made_result(number, name=name), place.team.key)
        place.server.arrived()  # what is kept is kept
        page = place.caller("reader").get(f"/results/{name}@a")
        assert (page.status, held.result_id[:12] in page.text) == (200, True)


def test_the_page_of_a_contract_tells_its_machines_apart(place: World) -> None:
    """Found: 80 and 100 in turn, of two machines, was one series on the page and in the API."""
    contract = make_contract(name="two-machines")
    for day in range(36):
        machine, level = ("left", 80.0) if day % 2 else ("right", 100.0)
        means = tuple(level * (1 + 0.001 * ((day * 7 + run * 3) % 5)) for run in range(5))
        stamp = f"2026-0{1 + day // 28}-{1 + day % 28:02d}T00:00:00+00:00"
        made = make_result(
            contract=contract, executor=make_executor(machine=machine), run_means=means, started_at=stamp
        ).model_copy(update={"run_id": f"two-machines-{day}", "result_id": ""})
        held = record(place.server.ledger, made.sealed(), place.team.key)
    anew(place)
    caller = place.caller("reader")
    page = caller.get(f"/contracts/{held.contract_id}").text
    assert "the first of 2 series" in page
    assert "no change of level on any of 2 machines" in page
    assert 'id="series-2"' in page
    assert "no change of level on any of 2 machines" in row_of(caller.get("/contracts").text, "two-machines")
    found = caller.get(f"{API}/contracts/{held.contract_id}/history").json()
    series = [found, *found["machines"]]
    assert [len(one["points"]) for one in series] == [18, 18]
    for one in series:
        letter = one["machine"].rpartition(" ")[2]
        alone = caller.get(f"{API}/contracts/{held.contract_id}/history?machine={letter}").json()
        assert alone["points"] == one["points"]
        assert "machines" not in alone
    assert caller.get(f"{API}/contracts/{held.contract_id}/history?machine=zzz").status == 404
    rows = caller.get(f"/contracts/{held.contract_id}/series.csv").text.splitlines()
    assert (len(rows), len({row.split(",")[3] for row in rows[1:]})) == (37, 2)
