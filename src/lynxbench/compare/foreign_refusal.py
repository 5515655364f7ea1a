"""Foreign evidence against ours: always refused, with what it fails to state."""

from __future__ import annotations

from lynxbench.compare.rules import BY_NUMBER, RULES
from lynxbench.model.comparison import Comparability, Comparison, RuleOutcome, RuleVerdict, Side
from lynxbench.model.entries import ForeignImported
from lynxbench.model.result import Result

NOTHING = ""


def compare_foreign(a: Result | ForeignImported, b: Result | ForeignImported, names: tuple[str, str]) -> Comparison:
    """A pair of which at least one is foreign: incomparable, with everything that is missing."""
    rule = BY_NUMBER["R18"]
    rules = [
        RuleOutcome(
            rule=rule.number,
            name=rule.name,
            outcome=RuleVerdict.BREAKS,
            said=f"{name} is a result of {one.tool}, which does not state: {', '.join(one.missing)}",
            remedy=rule.remedy,
        )
        for name, one in zip(names, (a, b), strict=True)
        if isinstance(one, ForeignImported)
    ]
    assert rules, "neither is foreign"
    return Comparison(
        comparability=Comparability.INCOMPARABLE,
        rules=tuple(rules),
        effect=None,
        verdict=None,
        layers=(),
        a=_side(a, names[0]),
        b=_side(b, names[1]),
        precision=None,
        figure=None,
        budget=0.0,
        confidence=0.0,
        per_precision=(),
        cause=None,
        sound_if=(rule.remedy,),
        rules_checked=tuple(one.number for one in RULES),
    )


def _side(one: Result | ForeignImported, name: str) -> Side:
    if isinstance(one, ForeignImported):
        ids = dict.fromkeys(("result_id", "contract_id", "executor_id", "instance_id"), NOTHING)
        return Side(name=name, started_at=str(one.stated.get("started_at") or NOTHING), validity="foreign", **ids)
    return Side(
        name=name,
        result_id=one.result_id,
        contract_id=one.contract_id,
        executor_id=one.executor_id,
        instance_id=one.instance_id,
        started_at=one.started_at,
        validity=one.validity.verdict.value,
    )
