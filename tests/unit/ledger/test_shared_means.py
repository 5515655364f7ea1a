"""Other runs that state a run mean of a result, as the index of both databases has them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledgers import key_of, recorded, sealed
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.queries import find_result
from lynxbench.record.sample_copies import MOST_OPENED, _with_a_mean_of

KEY = key_of("alpha")
MINE = recorded("mine", estimate=123.456789012345)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url, blobs="somewhere") as opened:
        yield opened


def sharing(ledger: Ledger) -> list[str]:
    found = find_result(ledger, MINE.result_id)
    assert found is not None
    return [logged.entry.body.run_id for logged in _with_a_mean_of(ledger, found)]  # type: ignore[union-attr]


def test_one_mean_of_another_run_is_enough_whatever_its_contract(ledger: Ledger) -> None:
    part = MINE.per_precision[0]
    one_of_five = part.model_copy(update={"run_means": (1.0, 2.0, part.run_means[3], 4.0)})
    others = [
        recorded("near", estimate=123.45679),
        recorded("other", contract="another").model_copy(update={"per_precision": (one_of_five,)}),
        recorded("mine", estimate=123.456789012345).model_copy(update={"executor_id": "0" * 64}),
    ]
    ledger.append_all([sealed(body, KEY) for body in (MINE, *others)])
    assert sharing(ledger) == ["run-other"]


def test_of_many_the_oldest_are_opened(ledger: Ledger) -> None:
    many = [recorded(f"{number:03d}", estimate=123.456789012345) for number in range(MOST_OPENED + 9)]
    ledger.append_all([sealed(body, KEY) for body in (*many, MINE)])
    assert sharing(ledger) == [body.run_id for body in many[:MOST_OPENED]]
