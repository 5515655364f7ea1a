"""A contract that replaces another names it; a chain that loops, lies or leads nowhere is told as such."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from command_line import QUICK_CONTRACT
from compared import make_contract
from lynxbench.contract.amendments import MOST_STEPS, amended_by
from lynxbench.contract.diff import compare_contracts
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadFile
from lynxbench.model.contract import Contract


def chain(length: int) -> list[Contract]:
    contracts = [make_contract(teams=["alpha", "bravo"])]
    while len(contracts) < length:
        contracts.append(make_contract(teams=["alpha"], amends=contracts[-1].contract_id))
    return contracts


def kept(*contracts: Contract) -> dict[str, Contract]:
    return {contract.contract_id: contract for contract in contracts}


def test_every_step_back_is_named_with_the_teams_it_drops() -> None:
    first, second, third = chain(3)
    steps = amended_by(third, kept(first, second).get)
    assert [step.contract_id for step in steps] == [second.contract_id, first.contract_id]
    assert [step.no_longer_asked for step in steps] == [(), ("bravo",)]
    assert "no longer asks bravo" in steps[1].line
    assert not any(step.problem for step in steps)
    assert amended_by(first, kept().get) == ()


def test_a_chain_that_points_to_nothing_says_so() -> None:
    lost = make_contract(amends="ab" * 32)
    (step,) = amended_by(lost, kept().get)
    assert step.problem == "its text is not known here"
    assert step.name is None


def test_a_chain_that_loops_ends() -> None:
    # Ids are hashes, so an honest loop cannot be written; a store that lies can offer one.
    one, two = make_contract(amends="ab" * 32), make_contract(amends="cd" * 32)
    lying = {"ab" * 32: two, "cd" * 32: one}
    (step,) = amended_by(one, lying.get)
    assert "has another one" in step.problem
    alone = one.model_copy(update={"amends": one.contract_id})
    assert len(amended_by(alone, {one.contract_id: one}.get)) <= 2
    itself = amended_by(one, lambda name: one.model_copy(update={"amends": name}))
    assert len(itself) == 1
    assert itself[0].problem


def test_contracts_that_name_each_other_are_a_forgery() -> None:
    one = SimpleNamespace(contract_id="one", name="one", teams=(), amends="two")
    two = SimpleNamespace(contract_id="two", name="two", teams=(), amends="one")
    steps = amended_by(one, {"two": two}.get)  # type: ignore[arg-type]
    assert [step.contract_id for step in steps] == ["two", "one"]
    assert "amended by itself" in steps[-1].problem


def test_a_chain_that_never_ends_is_not_followed_for_ever() -> None:
    contracts = chain(MOST_STEPS + 5)
    steps = amended_by(contracts[-1], kept(*contracts).get)
    assert len(steps) == MOST_STEPS + 1
    assert "not followed further" in steps[-1].problem


def test_what_is_kept_under_another_id_is_not_believed() -> None:
    first, second, _ = chain(3)
    (step,) = amended_by(second, lambda _: make_contract(name="forged"))
    assert step.contract_id == first.contract_id
    assert "another one" in step.problem


# --- as people write them --------------------------------------------------------------------------------------------


def test_the_keys_change_the_id_and_their_spelling_does_not() -> None:
    plain = parse_contract(QUICK_CONTRACT)
    asked = parse_contract(QUICK_CONTRACT + "teams: [bravo, alpha]\n")
    assert "teams" not in plain.canonical()
    assert "amends" not in plain.canonical()
    assert parse_contract(QUICK_CONTRACT + "teams: []\namends: null\n").contract_id == plain.contract_id
    assert asked.contract_id != plain.contract_id
    assert parse_contract(QUICK_CONTRACT + "teams:\n  - alpha\n  - bravo\n").contract_id == asked.contract_id
    amending = parse_contract(QUICK_CONTRACT + f"teams: [alpha, bravo]\namends: {plain.contract_id}\n")
    assert amending.contract_id not in (plain.contract_id, asked.contract_id)
    assert compare_contracts(plain, amending).verdict == "comparable with differences"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("teams: [Alpha]", "no team name"),
        ("teams: ['alpha ']", "no team name"),
        ("teams: [ML platform]", "'ml-platform'"),
        ("teams: ['\u0430lpha']", "CYRILLIC"),
        ("teams: [alpha, alpha]", "listed twice"),
        ("teams: [alpha, a1pha]", "mistaken for one another"),
        ("teams: alpha", "teams"),
        ("amends: abcd", "amends"),
        ("amends: sha256:" + "ab" * 32, "amends"),
        ("amends: [" + "ab" * 32 + "]", "amends"),
    ],
)
def test_a_wrong_key_is_told_with_its_line(line: str, says: str) -> None:
    with pytest.raises(BadFile, match=says) as told:
        parse_contract(QUICK_CONTRACT + line + "\n", "c.yaml")
    assert told.value.line == QUICK_CONTRACT.count("\n") + 1
