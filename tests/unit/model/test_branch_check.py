"""What a pipeline ends with, for every mixture of verdicts and every policy."""

from __future__ import annotations

import itertools

import pytest

from lynxbench.model.branch_check import BranchCheck, CheckVerdict, CodeCommit, ContractCheck, FailOn

ONE = CodeCommit(asked="HEAD", sha="ab" * 20, subject="x")
STOPS = {
    FailOn.REGRESSION: (CheckVerdict.REGRESSED, CheckVerdict.BROKEN),
    FailOn.DOUBT: (CheckVerdict.REGRESSED, CheckVerdict.BROKEN, CheckVerdict.DOUBT),
    FailOn.NEVER: (),
}
CODES = {CheckVerdict.REGRESSED: 1, CheckVerdict.BROKEN: 2, CheckVerdict.DOUBT: 6}


@pytest.mark.parametrize("fail_on", FailOn)
def test_the_gravest_verdict_that_stops_the_pipeline_decides(fail_on: FailOn) -> None:
    for verdicts in itertools.product(CheckVerdict, repeat=3):
        checks = tuple(
            ContractCheck(contract="c.yaml", name="c", contract_id="cd" * 32, verdict=verdict, said="")
            for verdict in verdicts
        )
        check = BranchCheck(base=ONE, head=ONE, fail_on=fail_on, checks=checks)
        stopping = [verdict for verdict in verdicts if verdict in STOPS[fail_on]]
        assert check.exit_code == min((CODES[verdict] for verdict in stopping), default=0)
