"""Letters of machines, and an index that no longer leads to one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgers import key_of, recorded, registered, sealed
from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.names import machine_letters
from lynxbench.ledger.queries import Wanted, list_results


def test_a_machine_that_the_index_does_not_lead_to_is_one_line(tmp_path: Path) -> None:
    key = key_of("alpha")
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}", blobs="somewhere") as ledger:
        ledger.append_all([sealed(registered("one"), key), sealed(recorded("one"), key)])
        letters = machine_letters(ledger)
        (listed,) = list_results(ledger, Wanted())
        assert letters[listed.instance_id] == "a"
        with pytest.raises(EvidenceInvalid, match=r"does not hold 000000000000: .* results log --verify$"):
            letters["0" * 64]
