"""What was asked, in the words that stand beside a figure."""

from __future__ import annotations

import pytest

from lynxbench.contract.loader import parse_contract
from lynxbench.measure.context import conditions_of
from served import served_contract


@pytest.mark.parametrize(
    ("arrival", "words"),
    [
        ("{process: closed, concurrency: 4}", "closed loop, 4 at a time"),
        ("{process: closed, concurrency: 4, start: together}", "closed loop, 4 at a time, started together"),
        ("{process: poisson, rate: 100 /s}", "open loop, poisson 100 /s"),
    ],
)
def test_the_load_is_told(arrival: str, words: str) -> None:
    contract = parse_contract(served_contract("http://127.0.0.1:8000/v1", arrival=arrival))
    assert conditions_of(contract, threads=1).load == words
