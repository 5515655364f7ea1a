"""A branch check and a bisection in words: what decides stands first, and doubt is said as such."""

from __future__ import annotations

from compared import make_contract, make_executor, make_result
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.contract.diff import compare_contracts
from lynxbench.model.branch_check import (
    Bisection,
    BranchCheck,
    CheckVerdict,
    CodeCommit,
    CommitOutcome,
    CommitVerdict,
    ContractCheck,
    FailOn,
)
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.report.documents.branch_document import comparison_line, compose_bisection, compose_branch
from lynxbench.report.render_terminal import render_terminal

COMMITS = tuple(CodeCommit(asked=f"c{n}", sha=f"{n}" * 40, subject=f"change {n}") for n in range(5))


def _pair(b: Result) -> ComparedPair:
    a = make_result()
    differences = compare_contracts(a.contract, b.contract).differences
    return ComparedPair(ComparedSide(a, "base"), ComparedSide(b, "head"), differences, order=("AB",) * 5)


def _slow(**changes: object) -> Result:
    changed = make_executor({"application.commit": "b"})
    return make_result(executor=changed, run_means=(80.0, 81.0, 79.0, 80.5, 79.5), **changes)  # type: ignore[arg-type]


def test_a_comparison_in_a_line_says_the_change_or_why_there_is_none() -> None:
    assert comparison_line(compare_pair(_pair(_slow()))).startswith("regressed: throughput −20")
    doubtful = _slow(validity=Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("the clock was set back",)))
    line = comparison_line(compare_pair(_pair(doubtful)))
    assert line.startswith("unproven: throughput −20")
    assert "the clock was set back" in line
    other = comparison_line(compare_pair(_pair(make_result(contract=make_contract(protocol={"min_duration": "90 s"})))))
    assert other.startswith("incomparable (R")
    assert "no ratio" in other
    assert "%" not in other.partition("no ratio")[2]


def _checked(*verdicts: CheckVerdict, fail_on: FailOn = FailOn.REGRESSION) -> str:
    checks = tuple(
        ContractCheck(contract=f"{verdict}.yaml", name="x", contract_id="cd" * 32, verdict=verdict, said="so it is")
        for verdict in verdicts
    )
    check = BranchCheck(base=COMMITS[0], head=COMMITS[1], fail_on=fail_on, checks=checks)
    return render_terminal(compose_branch(check), width=120, colour=False)


def test_the_first_word_is_what_stops_it_and_doubt_is_no_pass() -> None:
    assert _checked(CheckVerdict.PASSED).startswith("PASSED: 1 contract: 1 passed")
    assert _checked(CheckVerdict.PASSED, CheckVerdict.DOUBT).startswith("NOTHING PROVEN")
    assert _checked(CheckVerdict.DOUBT, fail_on=FailOn.DOUBT).startswith("DOUBT")
    assert _checked(CheckVerdict.BROKEN, CheckVerdict.REGRESSED).startswith("REGRESSED")
    assert "0000000000 change 0" in _checked(CheckVerdict.PASSED)


def test_a_bisection_names_its_suspects_and_everything_it_looked_at() -> None:
    outcomes = (
        CommitOutcome(sha=COMMITS[4].sha, verdict=CommitVerdict.BAD, said="regressed", restarts=5),
        CommitOutcome(sha=COMMITS[2].sha, verdict=CommitVerdict.UNDECIDED, said="straddles", restarts=20),
    )
    found = Bisection(
        contract="score.yaml",
        contract_id="ab" * 32,
        good=COMMITS[0],
        bad=COMMITS[4],
        commits=COMMITS[1:],
        outcomes=outcomes,
        threshold=0.1056,
        suspects=COMMITS[2:4],
        confirmed=True,
        ended="one of these 2: c2, c3",
    )
    text = render_terminal(compose_bisection(found), width=140, colour=False)
    assert text.startswith("NOT SETTLED: one of these 2")
    assert text.count("suspect") == 2
    assert "straddles (20 pairs)" in text
    assert "a loss of 11 %" in text
    single = found.model_copy(update={"suspects": COMMITS[2:3]})
    assert render_terminal(compose_bisection(single), width=140, colour=False).startswith("FOUND")
    unconfirmed = single.model_copy(update={"confirmed": False})
    assert render_terminal(compose_bisection(unconfirmed), width=140, colour=False).startswith("NOT SETTLED")
