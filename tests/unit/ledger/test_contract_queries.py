"""What a contract's page asks of a ledger: the quick question finds what looking at every entry finds."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from compared import make_contract
from ledgers import decision, key_of, recorded, registered, sealed, sha
from lynxbench.errors import BadInput, BadLedger
from lynxbench.evidence.keys import SigningKey
from lynxbench.ledger.ledger_tables import entries
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.names import find_id
from lynxbench.ledger.queries import (
    Wanted,
    entries_about,
    entries_of_contract,
    find_result,
    find_results,
    list_results,
    result_ids,
)
from lynxbench.model.canonical import short
from lynxbench.model.entries import (
    ChangeDeclared,
    ChangeMeasured,
    ChangeVerdict,
    ContractAgreed,
    EntryBody,
    EntryKind,
    ResultContested,
    ResultRecorded,
    RunAbandoned,
)
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

KEYS = (key_of("alpha"), key_of("bravo"))
CONTRACTS = [make_contract(name=f"contract-{number}") for number in range(3)]
IDS = [one.contract_id for one in CONTRACTS]
ASKED = (
    (EntryKind.CONTRACT,),
    (EntryKind.CHANGE, EntryKind.CHANGE_MEASURED),
    (EntryKind.RESULT,),
    (EntryKind.FOREIGN,),
)


def _result(name: str, contract_id: str, minute: int, precisions: tuple[Precision, ...]) -> ResultRecorded:
    made = recorded(
        name, started_at=f"2026-11-01T00:{minute:02d}:00+00:00", precisions=precisions, estimate=50 + minute
    )
    return made.model_copy(update={"contract_id": contract_id})


def _change(number: int, contract_id: str) -> tuple[ChangeDeclared, ChangeMeasured]:
    expected = Interval(0.9, 1.0, 1.1)
    declared = ChangeDeclared(
        contract_id=contract_id,
        layer=Layer.FRAMEWORK,
        owner="platform",
        what=f"change {number}",
        expected=expected,
    )
    measured = ChangeMeasured(
        change_id=declared.change_id,
        contract_id=contract_id,
        before=sha("result 0"),
        after=sha("result 1"),
        precision=Precision.FP32,
        effect=expected,
        verdict=ChangeVerdict.AS_EXPECTED,
        layers_differing=(Layer.FRAMEWORK,),
    )
    return declared, measured


def _bodies(seed: int) -> list[EntryBody]:
    """Entries of every kind that names a contract, mixed; several results share a second."""
    chosen = random.Random(seed)
    bodies: list[EntryBody] = [ContractAgreed(contract_id=one.contract_id, contract=one) for one in CONTRACTS]
    for number in range(24):
        contract_id = chosen.choice(IDS)
        precisions = chosen.choice(((Precision.FP32,), (Precision.FP32, Precision.INT8)))
        name = str(number)
        if number % 2:  # a run that was registered is its own team's alone
            bodies.append(registered(name).model_copy(update={"contract_id": contract_id}))
        bodies.append(_result(name, contract_id, chosen.randrange(6), precisions))
        if number % 5 == 0:
            bodies += _change(number, contract_id)
        if number % 6 == 0:
            bodies.append(ResultContested(result_id=sha(f"result {name}"), reason="warm"))
            bodies.append(decision(f"question {number}").model_copy(update={"contract_id": contract_id}))
            bodies.append(
                RunAbandoned(run_id=f"run-x{number}", nonce="n", contract_id=contract_id, attempts=1, reason="stopped")
            )
    chosen.shuffle(bodies)
    return bodies


def _key(body: EntryBody) -> SigningKey:
    """Whose run it is, or whoever speaks."""
    return KEYS[sum(map(ord, getattr(body, "run_id", ""))) % 2]


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url, blobs="somewhere") as opened:
        bodies = _bodies(7)
        opened.append_all([sealed(body, _key(body)) for body in bodies])
        # recorded twice: by another team, and (untruly) at another time or under another contract
        unregistered = {f"run-{number}" for number in range(0, 24, 2)}
        again = [body for body in bodies if isinstance(body, ResultRecorded) and body.run_id in unregistered][::3]
        opened.append_all([sealed(body, KEYS[0]) for body in again] + [sealed(body, KEYS[1]) for body in again])
        moved = [body.model_copy(update={"started_at": "2026-11-01T00:59:00+00:00"}) for body in again]
        opened.append_all([sealed(body, KEYS[0]) for body in moved])
        early = {"started_at": "2026-11-01T00:00:00+00:00"}
        others = [
            body.model_copy(update={"contract_id": IDS[(IDS.index(body.contract_id) + 1) % 3], **early})
            for body in again[:2]
        ]
        opened.append_all([sealed(body, KEYS[1]) for body in others])
        yield opened


def _all(ledger: Ledger) -> list[Logged]:
    return ledger.read_all(list(range(ledger.head().size)))


@pytest.mark.parametrize("kinds", ASKED)
def test_entries_of_a_contract_are_those_that_name_it(ledger: Ledger, kinds: tuple[EntryKind, ...]) -> None:
    for contract_id in (*IDS, sha("nothing")):
        found = entries_of_contract(ledger, contract_id, kinds)
        everything = [one for one in _all(ledger) if getattr(one.entry.body, "contract_id", None) == contract_id]
        assert found == [one for one in everything if one.entry.body.kind in kinds]
        assert found == entries_about(ledger, [contract_id], kinds)
    assert entries_of_contract(ledger, IDS[0], [EntryKind.CONTRACT])


def test_the_first_record_of_each_result_is_found_at_once(ledger: Ledger) -> None:
    first: dict[str, Logged] = {}
    for one in _all(ledger):
        if isinstance(one.entry.body, ResultRecorded):
            first.setdefault(one.entry.body.result_id, one)
    assert find_results(ledger, [*first, *first, "0" * 64]) == first
    assert find_results(ledger, []) == {}
    for name, one in first.items():
        assert find_result(ledger, name) == one


def test_more_results_than_one_question_takes_are_found(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    names = result_ids(ledger, IDS[0])
    whole = find_results(ledger, names)
    monkeypatch.setattr("lynxbench.ledger.log.AT_ONCE", 2)
    assert find_results(ledger, names) == whole
    assert set(whole) == set(names)


def test_the_newest_ids_are_the_end_of_all_of_them(ledger: Ledger) -> None:
    for contract_id in (*IDS, sha("nothing")):
        wanted = Wanted(contract=contract_id, limit=None)
        slowly = list(dict.fromkeys(one.result_id for one in list_results(ledger, wanted)[::-1]))
        assert result_ids(ledger, contract_id) == slowly
        for newest in (1, 2, 3, 5, 100):
            assert result_ids(ledger, contract_id, newest) == slowly[-newest:]


def test_a_short_list_has_the_figures_of_a_long_one(ledger: Ledger) -> None:
    whole = list_results(ledger, Wanted(limit=None))
    assert {len(one.figures) for one in whole} == {1, 2}
    for one in whole:
        body = ledger.read(one.seq).entry.body
        assert isinstance(body, ResultRecorded)
        assert {(f.precision, f.run_means) for f in one.figures} == {
            (f.precision.value, f.run_means) for f in body.per_precision
        }
    for limit in (1, 4, 11):
        assert list_results(ledger, Wanted(limit=limit)) == whole[:limit]
        mine = [one for one in whole if any(f.precision == "int8" for f in one.figures)]
        assert list_results(ledger, Wanted(precision="int8", limit=limit)) == mine[:limit]


def test_a_whole_id_is_found_as_its_beginning_is(ledger: Ledger) -> None:
    for contract_id in IDS:
        assert (
            find_id(ledger, contract_id, "contract") == find_id(ledger, short(contract_id), "contract") == contract_id
        )
    with pytest.raises(BadInput, match="no result"):
        find_id(ledger, IDS[0], "result")


def test_the_index_of_contracts_comes_and_goes(ledger: Ledger) -> None:
    before = entries_of_contract(ledger, IDS[1], ASKED[1])
    for target, there in (("0003", False), ("head", True)):
        ledger.database.migrate(target)
        with ledger.database.reading() as connection:
            names = {one["name"] for one in sa.inspect(connection).get_indexes("ledger_entries")}
        assert ("ledger_entries_contract" in names) is there
    assert entries_of_contract(ledger, IDS[1], ASKED[1]) == before


def test_a_reader_sees_one_state_and_writes_nothing(ledger: Ledger) -> None:
    count = sa.select(sa.func.count()).select_from(entries)
    with ledger.database.reading() as connection:
        size = connection.execute(count).scalar_one()
        ledger.append(sealed(decision("while somebody reads"), KEYS[0]))
        assert connection.execute(count).scalar_one() == size, "a snapshot"
    with ledger.database.reading() as connection:
        assert connection.execute(count).scalar_one() == size + 1
    if not ledger.database.is_sqlite:
        with pytest.raises(BadLedger, match="read-only"), ledger.database.reading() as connection:
            connection.execute(sa.text("CREATE TABLE left_behind (a INTEGER)"))
    ledger.append(sealed(decision("the same connections write again"), KEYS[0]))
    assert recompute(ledger).size == size + 2
