"""Entries whose contract is read late: the same bytes, the same schema and the same words as if it stood there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from lynxbench.contract.loader import read_bundled
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document, first_problem
from lynxbench.model.entries import ContractAgreed, Entry

CONTRACT = read_bundled("quickstart")
AGREED = ContractAgreed(contract_id=CONTRACT.contract_id, contract=CONTRACT)


class PlainlyAgreed(Document):
    """What an agreed contract would be if its form were known from the start."""

    kind: str
    contract_id: str
    contract: Contract


def damaged(**changes: Any) -> str:
    document = AGREED.model_dump(mode="json", by_alias=True)
    document["contract"] |= changes
    return json.dumps(document)


@pytest.mark.parametrize("exclude_unset", [True, False])
def test_a_contract_is_written_as_its_form_says(exclude_unset: bool) -> None:
    plain = PlainlyAgreed(kind="contract", contract_id=CONTRACT.contract_id, contract=CONTRACT)
    options: dict[str, Any] = {"mode": "json", "by_alias": True, "exclude_unset": exclude_unset}
    written = AGREED.model_dump(**options)
    assert written["contract"] == plain.model_dump(**options)["contract"]
    assert AGREED.model_dump_json(by_alias=True) == plain.model_dump_json(by_alias=True)


def test_a_contract_is_read_back_as_one() -> None:
    read = ContractAgreed.model_validate_json(AGREED.model_dump_json(by_alias=True))
    assert isinstance(read.contract, Contract)
    assert read == AGREED
    assert read.contract.contract_id == CONTRACT.contract_id


@pytest.mark.parametrize("changes", [{"colour": "red"}, {"name": 7}, {"workload": {}}])
def test_what_is_wrong_in_a_contract_is_said_in_one_line(changes: dict[str, Any]) -> None:
    text = damaged(**changes)
    with pytest.raises(ValidationError) as error:
        ContractAgreed.model_validate_json(text)
    with pytest.raises(ValidationError) as plain:
        Contract.model_validate_json(json.dumps(json.loads(text)["contract"]))
    assert first_problem(error.value) == f"contract: {first_problem(plain.value)}"
    assert "\n" not in first_problem(error.value)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_schema_of_an_entry_tells_a_contract_whole(mode: Any) -> None:
    schema = TypeAdapter(Entry).json_schema(mode=mode)
    contract = TypeAdapter(Contract).json_schema(mode=mode)
    definitions = contract.pop("$defs")
    assert schema["$defs"]["ContractAgreed"]["properties"]["contract"] == {"$ref": "#/$defs/Contract"}
    assert schema["$defs"]["Contract"] == contract
    assert definitions.items() <= schema["$defs"].items()


def test_an_entry_without_a_contract_loads_none() -> None:
    program = (
        "import sys\n"
        "from lynxbench.model.entries import Entry\n"
        "Entry.model_rebuild()\n"
        "assert 'lynxbench.model.contract' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
