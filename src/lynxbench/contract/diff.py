"""Two contracts, key by key: which differences break the comparability of their results, and why.

The rules are data. One thought stands behind them all: a difference breaks comparability where it changes the work
that is done, the time that is counted or the tuning that is allowed. It does not where it only changes who is told, how
a number is judged, how sure it is, or which stack executes it: the stack is what a comparison is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from lynxbench.model.comparison import ContractDifference
from lynxbench.model.contract import Contract, Division
from lynxbench.model.precision import reference_of
from lynxbench.tables import read_table


@dataclass(frozen=True, slots=True)
class KeyRule:
    """What a difference in a key does, why, and the case in which it breaks comparability all the same."""

    breaks: bool
    reason: str
    exception: str = ""
    judge: Callable[[Contract, Contract], KeyRule | None] | None = None
    """Gives the rule in the exceptional case, None otherwise."""


@dataclass(frozen=True, slots=True)
class ContractComparison:
    """All differences of two contracts, in the order of the keys."""

    before_id: str
    after_id: str
    differences: tuple[ContractDifference, ...]

    @property
    def verdict(self) -> str:
        """`comparable`, `comparable with differences` or `incomparable`."""
        if any(difference.breaks for difference in self.differences):
            return "incomparable"
        return "comparable with differences" if self.differences else "comparable"


def _if_tuned(reason: str) -> Callable[[Contract, Contract], KeyRule | None]:
    def judge(before: Contract, after: Contract) -> KeyRule | None:
        tuned = any(contract.optimisation.division is not Division.NONE for contract in (before, after))
        return KeyRule(True, reason) if tuned else None

    return judge


def _judge_precisions(before: Contract, after: Contract) -> KeyRule | None:
    left, right = before.workload.precisions, after.workload.precisions
    if not set(left) & set(right):
        return KeyRule(True, "no precision is in both, and a number at one precision says nothing about another")
    reference, other = reference_of(left), reference_of(right)
    if reference is not other:
        return KeyRule(True, f"accuracy is held against {reference} in one and {other} in the other")
    return KeyRule(False, "the same precisions in another order") if set(left) == set(right) else None


_JUDGES: Mapping[str, Callable[[Contract, Contract], KeyRule | None]] = {
    "regime": _if_tuned("it is what the tuner aimed at"),
    "workload.precisions": _judge_precisions,
    "objective": _if_tuned("it bounded what the tuner chose"),
}
RULES: Mapping[str, KeyRule] = {
    key: KeyRule(effect == "breaks", reason, "".join(exception), _JUDGES.get(key))
    for key, (effect, reason, *exception) in read_table("contract/differences.toml").items()
}
"""The longest matching key decides; a test holds that every key of a contract has a rule."""

_TAGS = ("source", "distribution", "process", "name")


def compare_contracts(before: Contract, after: Contract) -> ContractComparison:
    """Every key whose meaning differs, each with what that does to comparability and why."""
    differences = tuple(
        _judged(key, left, right, before, after)
        for key, left, right in _walk(before.canonical(), after.canonical(), "")
    )
    return ContractComparison(before.contract_id, after.contract_id, differences)


def rule_of(key: str) -> KeyRule:
    """The rule for a key: its own, or that of the nearest key above it."""
    while key not in RULES:
        if "." not in key:
            raise KeyError(key)
        key = key.rpartition(".")[0]
    return RULES[key]


def _judged(key: str, left: JsonValue, right: JsonValue, before: Contract, after: Contract) -> ContractDifference:
    rule = rule_of(key)
    rule = (rule.judge and rule.judge(before, after)) or rule
    return ContractDifference(key, left, right, rule.breaks, rule.reason)


def _walk(left: object, right: object, key: str) -> Iterator[tuple[str, JsonValue, JsonValue]]:
    if left == right:
        return
    if isinstance(left, dict) and isinstance(right, dict) and not (key and _another_kind(left, right)):
        for name in [*left, *(name for name in right if name not in left)]:
            yield from _walk(left.get(name), right.get(name), f"{key}.{name}" if key else name)
        return
    yield key, left, right  # type: ignore[misc]


def _another_kind(left: Mapping[str, object], right: Mapping[str, object]) -> bool:
    # A uniform and a fixed length share no keys: they differ as a whole. (A package's `name` is no tag: `source` is.)
    tag = next((name for name in _TAGS if name in left or name in right), None)
    return tag is not None and left.get(tag) != right.get(tag)
