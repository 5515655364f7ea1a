"""Signatures under contracts through the server: a team hands in its own, seen by everybody, forged by nobody."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import lynxbench_here
from compared import make_contract
from hosted import Caller, World, hidden, trust_all
from lynxbench.contract.writer import Marked, render_contract
from lynxbench.model.contract import Contract
from lynxbench.model.entries import ContractSigned
from lynxbench.record.agreeing import render_signed, seal_agreement
from lynxbench.record.recording import seal
from lynxbench.server.rights import API
from recording_teams import OTHER, TEAM, Team, made_result, make_team


def asking(name: str, **changes: object) -> Contract:
    return make_contract(name=name, teams=[TEAM, OTHER], **changes)


def lines(team: Team, contract: Contract) -> list[str]:
    return render_signed(seal_agreement(contract, team.key)).decode().splitlines()


def size_of(world: World) -> int:
    return world.server.ledger.log.head().size


def agreement(world: World, contract: Contract) -> dict[str, object]:
    found = world.caller("reader").get(f"{API}/contracts/{contract.contract_id}/agreement")
    assert found.status == 200, found.text
    document: dict[str, object] = found.json()
    return document


def test_each_team_hands_in_its_own_and_everybody_sees_it(world: World) -> None:
    contract = asking("agreed-by-token")
    first = world.caller("submitter").json("POST", f"{API}/agreements", {"entries": lines(world.team, contract)})
    assert first.status == 200, first.text
    assert first.json()["words"] == f"not agreed (1 of 2; missing: {OTHER})"
    page = world.caller("reader").get(f"/contracts/{contract.contract_id}").text
    assert f"not agreed (1 of 2; missing: {OTHER})" in page
    second = world.caller("stranger").json("POST", f"{API}/agreements", {"entries": lines(world.other, contract)})
    assert second.json()["agreed"] is True
    assert agreement(world, contract)["missing"] == []
    assert "agreed (2 of 2)" in world.caller("reader").get(f"/contracts/{contract.contract_id}").text


def test_the_form_takes_the_file(world: World) -> None:
    contract, caller = asking("agreed-by-form"), Caller(world.port)
    assert caller.sign_in("submitter").status == 303
    page = caller.get("/agree")
    entry = "\r\n".join(lines(world.team, contract))  # as a browser sends a text of several lines
    sent = caller.form("/agree", {"csrf": hidden(page.text), "entry": entry})
    assert sent.status == 303
    assert sent.headers["location"] == f"/contracts/{contract.contract_id}#agreement"
    shown = caller.get(f"/contracts/{contract.contract_id}").text
    assert f"missing: {OTHER}" in shown
    before = size_of(world)
    wrong = caller.form("/agree", {"csrf": hidden(page.text), "entry": "<script>alert(1)</script>"})
    assert wrong.status == 422
    assert "<script>alert" not in wrong.text
    assert caller.form("/agree", {"csrf": "forged", "entry": entry}).status == 403
    assert size_of(world) == before
    world.calm()


def test_whoever_may_not_submit_sees_no_form(world: World) -> None:
    assert 'name="entry"' not in world.caller("reader").get("/agree").text
    refused = world.caller("reader").json("POST", f"{API}/agreements", {"entries": ["{}"]})
    assert refused.status == 403


@pytest.fixture
def forger(tmp_path: Path) -> Team:
    return make_team(OTHER, tmp_path)  # its card claims the other team's name


def test_forged_signatures_do_not_reach_the_log(world: World, forger: Team) -> None:
    contract, caller = asking("forged"), world.caller("submitter")
    other = asking("forged-too")
    text, signature = lines(world.team, contract)
    twin = json.loads(signature)
    edited = asking("forged", question="Something weaker?")
    before = size_of(world)
    for entries, status in (
        (lines(forger, contract), 422),  # a key that nobody registered
        (lines(world.other, contract), 409),  # another team's signature, handed in by this one
        ([signature], 404),  # a signature under a contract that nobody has seen
        ([lines(world.team, other)[0], signature], 422),  # with the text of another contract
        ([lines(world.team, edited)[0], signature], 422),  # with the text as it was edited afterwards
        ([text, json.dumps({**twin, "signatures": []})], 422),
        ([text, json.dumps({**twin, "payload": json.loads(text)["payload"]}, separators=(",", ":"))], 422),
        (["nonsense"], 422),
        ([], 422),
        ([text] * 9, 422),
    ):
        answer = caller.json("POST", f"{API}/agreements", {"entries": entries})
        assert answer.status == status, (entries, answer.text)
        assert len(answer.json()["error"]["message"].splitlines()) == 1
    assert size_of(world) == before


def test_a_team_that_is_not_asked_hands_in_nothing(world: World) -> None:
    contract = make_contract(name="asks-one", teams=[OTHER])
    text = lines(world.other, contract)[0]
    mine = seal(ContractSigned(contract_id=contract.contract_id), world.team.key).to_bytes().decode()
    before = size_of(world)
    assert world.caller("submitter").json("POST", f"{API}/agreements", {"entries": [text, mine]}).status == 409
    assert size_of(world) == before


def test_a_pushed_result_says_who_signed_before_it(world: World) -> None:
    contract = asking("agreed-and-measured", owners={"framework": "platform SRE"})
    for role, team in (("submitter", world.team), ("stranger", world.other)):
        sent = world.caller(role).json("POST", f"{API}/agreements", {"entries": lines(team, contract)})
        assert sent.status == 200, sent.text
    result = made_result(1, name="agreed-and-measured", teams=[TEAM, OTHER])
    assert result.contract_id == contract.contract_id
    early = result.model_copy(update={"run_id": "run-early"}).sealed()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    later = result.model_copy(update={"run_id": "run-later", "started_at": started, "finished_at": started}).sealed()
    assert world.caller("submitter").submit(world.team.bundle(early, later)).status == 200
    reader = world.caller("reader")
    words = {
        row["run_id"]: row["standing"]["summary"]
        for row in reader.get(f"{API}/results?contract={contract.contract_id}").json()["results"]
    }
    late = f"agreed after the run (0 of 2 before it; late: {OTHER}, {TEAM})"
    assert words == {"run-later": "recorded", "run-early": f"recorded, {late}"}
    for name, said in ((early.result_id, late), (later.result_id, "agreed (2 of 2)")):
        assert said in reader.get(f"/results/{name}").text
        assert said in reader.get(f"/results/{name}/report.html").text
        assert said in reader.get(f"{API}/results/{name}").json()["standing"]["words"]
    assert late in reader.get(f"/compare?a={early.result_id}&b={later.result_id}").text
    assert world.shown("/results", late)
    points = reader.get(f"{API}/contracts/{contract.contract_id}/history").json()["points"]
    assert {point["agreement"] for point in points} == {late, "agreed (2 of 2)"}


def test_a_kept_page_of_a_result_is_made_again_when_somebody_signs(world: World) -> None:
    contract = asking("signed-later", owners={"framework": "platform SRE"})
    sent = world.caller("submitter").json("POST", f"{API}/agreements", {"entries": lines(world.team, contract)})
    assert sent.status == 200, sent.text
    result = made_result(2, name="signed-later", teams=[TEAM, OTHER])
    assert world.caller("submitter").submit(world.team.bundle(result)).status == 200
    address = f"/results/{result.result_id}"
    assert f"missing: {OTHER}" in world.caller("reader").get(address).text
    world.caller("stranger").json("POST", f"{API}/agreements", {"entries": lines(world.other, contract)})
    assert f"missing: {OTHER}" not in world.caller("reader").get(address).text


def test_the_command_line_signs_at_a_server_and_collects_from_it(world: World, tmp_path: Path) -> None:
    contract = asking("signed-from-afar")
    home, puller = world.team.home, make_team("puller", tmp_path)
    file = tmp_path / "c.yaml"
    file.write_text(render_contract(contract, Marked()))
    address = f"http://127.0.0.1:{world.port}"

    def ask(where: Path, *arguments: str, token: str):  # type: ignore[no-untyped-def]
        given = {"LYNXBENCH_HOME": str(where), "LYNXBENCH_TOKEN": token}
        return lynxbench_here("contract", *arguments, "--server", address, "--json", cwd=tmp_path, **given)

    done = ask(home, "sign", str(file), token=world.tokens["submitter"])
    assert done.code == 0, done.err
    assert json.loads(done.out)["words"] == f"not agreed (1 of 2; missing: {OTHER})"
    nobody = ask(puller.home, "collect", "--contract", str(file), token=world.tokens["reader"])
    assert json.loads(nobody.out)["collected"] == [], "no key of theirs is trusted here"
    assert "not taken" in nobody.err
    trust_all(world, puller)
    taken = ask(puller.home, "collect", "--contract", str(file), token=world.tokens["reader"])
    assert [part["teams"] for part in json.loads(taken.out)["collected"]] == [[TEAM]]
    local = lynxbench_here("contract", "agreement", str(file), cwd=tmp_path, LYNXBENCH_HOME=str(puller.home))
    assert local.code == 1
    assert f"missing: {OTHER}" in local.out
    wrong = ask(puller.home, "sign", str(file), token=world.tokens["reader"])
    assert wrong.code == 3, "puller is not asked"
