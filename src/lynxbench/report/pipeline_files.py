"""A branch check as the files that pipelines read: JUnit XML, SARIF 2.1.0, the body of a comment."""

import json
import re
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from lynxbench import __version__
from lynxbench.model.branch_check import BranchCheck, CheckVerdict, ContractCheck
from lynxbench.report.documents.branch_document import compose_branch
from lynxbench.report.render_markdown import render_markdown

SUITE = "lynxbench ci"
COMMENT_MARK = "<!-- lynxbench ci -->"
"""Begins the comment, so that the next run finds it and writes over it instead of adding one."""
SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""XML 1.0 has no way to write these, escaped or not."""

RULES = {
    CheckVerdict.REGRESSED: ("regressed", "Proven slower than the base, beyond the contract's budget, twice.", "error"),
    CheckVerdict.BROKEN: ("broken", "The head's code cannot be measured.", "error"),
    CheckVerdict.DOUBT: ("doubt", "Neither that the head made it slower nor that it did not is proven.", "warning"),
    CheckVerdict.NEW: ("new", "The base cannot run it: there is nothing to hold against.", "note"),
}
"""What is worth a mark in the code, by its name, its meaning and its level."""


def render_comment(check: BranchCheck) -> str:
    """The body of a comment on a pull request."""
    return f"{COMMENT_MARK}\n{render_markdown(compose_branch(check))}"


def render_junit(check: BranchCheck) -> str:
    """A suite with a case for each contract: what stops the pipeline fails, what is not settled is skipped."""
    suite = ElementTree.Element("testsuite", name=SUITE, tests=str(len(check.checks)))
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for one in check.checks:
        case = ElementTree.SubElement(suite, "testcase", name=one.name, classname=_xml(one.contract))
        if one.file:
            case.set("file", _xml(one.file))
            case.set("line", str(one.line))
        tag, counted = _outcome(check, one)
        if tag:
            ElementTree.SubElement(case, tag, message=_xml(one.said), type=one.verdict.value)
            counts[counted] += 1
        ElementTree.SubElement(case, "system-out").text = _xml(f"{one.verdict}: {one.said}")
    for name, many in counts.items():
        suite.set(name, str(many))
    whole = ElementTree.Element("testsuites", name=SUITE, tests=str(len(check.checks)))
    whole.append(suite)
    ElementTree.indent(whole, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(whole, encoding="unicode") + "\n"


def _outcome(check: BranchCheck, one: ContractCheck) -> tuple[str, str]:
    """The element of a case that does not simply pass, and where it is counted."""
    if check.fails(one):
        return ("error", "errors") if one.verdict is CheckVerdict.BROKEN else ("failure", "failures")
    return ("", "") if one.verdict is CheckVerdict.PASSED else ("skipped", "skipped")


def render_sarif(check: BranchCheck) -> str:
    """A log of one run whose results stand at the measured function, or at the contract."""
    rules = [
        {
            "id": f"lynxbench/{name}",
            "name": name,
            "shortDescription": {"text": text},
            "defaultConfiguration": {"level": level},
        }
        for name, text, level in RULES.values()
    ]
    order = list(RULES)
    results = [_sarif_result(one, order.index(one.verdict)) for one in check.checks if one.verdict in RULES]
    tool = {"driver": {"name": "lynxbench", "semanticVersion": __version__, "rules": rules}}
    run: dict[str, Any] = {
        "tool": tool,
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": "lynxbench/ci/"},
        "properties": {"base": check.base.sha, "head": check.head.sha},
        "results": results,
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False)


def _sarif_result(one: ContractCheck, rule: int) -> dict[str, Any]:
    name, _, level = RULES[one.verdict]
    place = {
        "artifactLocation": {"uri": quote(one.file or one.contract), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": one.line if one.file else 1},
    }
    return {
        "ruleId": f"lynxbench/{name}",
        "ruleIndex": rule,
        "level": level,
        "message": {"text": f"{one.name}: {one.said}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"lynxbench/contract": f"{one.contract}:{name}"},
    }


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
