"""JUnit, SARIF and the comment of a branch check: whole by their schemas, and text of others stays text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from compared import make_executor, make_result
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.model.branch_check import BranchCheck, CheckVerdict, CodeCommit, ContractCheck, FailOn
from lynxbench.report.pipeline_files import COMMENT_MARK, render_comment, render_junit, render_sarif

HOSTILE = 'x"]]><!-- \x1b[31m \x00 \ud800 | <script>alert(1)</script> @everyone\n# Passed'
SARIF = json.loads((Path(__file__).parents[2] / "data" / "pipelines" / "sarif-required.json").read_text())
"""What SARIF 2.1.0 (OASIS, section 3) requires of the objects that we write, with no other property let in."""


def _check(fail_on: FailOn = FailOn.REGRESSION, said: str = "in a line", name: str = "score") -> BranchCheck:
    a = ComparedSide(make_result(), "base")
    slow = make_result(executor=make_executor({"application.commit": "b"}), run_means=(80.0, 81.0, 79.0, 80.5, 79.5))
    comparison = compare_pair(ComparedPair(a, ComparedSide(slow, "head"), order=("AB",) * 5))
    checks = tuple(
        ContractCheck(
            contract=f"bench/{verdict.value} ü.yaml",
            name=name,
            contract_id="cd" * 32,
            verdict=verdict,
            said=said,
            file="" if verdict is CheckVerdict.BROKEN else "pkg/jobs.py",
            line=7,
            comparison=comparison if verdict is CheckVerdict.REGRESSED else None,
            confirmation=comparison if verdict is CheckVerdict.REGRESSED else None,
        )
        for verdict in CheckVerdict
    )
    base, head = (CodeCommit(asked=name, sha=sha * 20, subject=said) for name, sha in (("main", "ab"), ("HEAD", "cd")))
    return BranchCheck(base=base, head=head, fail_on=fail_on, checks=checks, notes=(said,))


@pytest.mark.parametrize("said", ["in a line", HOSTILE])
def test_sarif_is_whole_and_points_at_the_function(said: str) -> None:
    log = json.loads(render_sarif(_check(said=said)))
    jsonschema.Draft7Validator(SARIF).validate(log)
    (run,) = log["runs"]
    places = {result["ruleId"]: result["locations"][0]["physicalLocation"] for result in run["results"]}
    assert set(places) == {"lynxbench/regressed", "lynxbench/broken", "lynxbench/doubt", "lynxbench/new"}
    assert places["lynxbench/regressed"]["artifactLocation"]["uri"] == "pkg/jobs.py"
    assert places["lynxbench/regressed"]["region"]["startLine"] == 7
    assert places["lynxbench/broken"]["artifactLocation"]["uri"] == "bench/broken%20%C3%BC.yaml"
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_the_schema_of_the_test_refuses_what_sarif_refuses() -> None:
    whole = json.loads(render_sarif(_check()))
    for break_it in (
        lambda log: log.pop("runs"),
        lambda log: log.update(version="2.0.0"),
        lambda log: log["runs"][0].pop("tool"),
        lambda log: log["runs"][0]["tool"]["driver"].pop("name"),
        lambda log: log["runs"][0]["results"][0].pop("message"),
        lambda log: log["runs"][0]["results"][0].update(level="fatal"),
        lambda log: log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"].update(startLine=0),
        lambda log: log["runs"][0]["results"][0].update(rule="x"),
    ):
        broken = json.loads(json.dumps(whole))
        break_it(broken)
        assert list(jsonschema.Draft7Validator(SARIF).iter_errors(broken))


@pytest.mark.parametrize("said", ["in a line", HOSTILE])
@pytest.mark.parametrize(
    ("fail_on", "counts"),
    [(FailOn.REGRESSION, (1, 1, 2)), (FailOn.DOUBT, (2, 1, 1)), (FailOn.NEVER, (0, 0, 4))],
)
def test_junit_fails_what_stops_the_pipeline_and_skips_what_is_not_settled(
    fail_on: FailOn, counts: tuple[int, ...], said: str
) -> None:
    whole = ElementTree.fromstring(render_junit(_check(fail_on, said)).encode())
    (suite,) = whole
    assert suite.get("tests") == "5"
    tags = ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")
    assert tuple(int(suite.get(name, "")) for name, _ in tags) == counts
    assert tuple(len(suite.findall(f"testcase/{tag}")) for _, tag in tags) == counts
    assert suite[0].get("name") == "score"


def test_the_comment_begins_with_its_mark_and_text_of_others_stays_text() -> None:
    comment = render_comment(_check(said=HOSTILE))
    assert comment.startswith(f"{COMMENT_MARK}\n# lynxbench ci")
    assert "**regressed**" in comment
    assert not re.search(r"(?<!\\)<script", comment)
    assert "\n# Passed" not in comment
    assert len(re.findall(r"(?<!\\)<!--", comment)) == 1
    for character in ("\x1b", "\x00"):
        assert character not in comment


def test_a_regression_shows_its_comparison_and_whom_to_ask() -> None:
    comment = render_comment(_check())
    assert "What stops it" in comment
    assert "application" in comment
