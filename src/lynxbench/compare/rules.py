"""The comparability rules: each with what it asks, why, and what makes a pair sound that breaks it.

They are data, in rules.toml; `docs/reference/` shows them.
"""

from dataclasses import dataclass

from lynxbench.tables import read_table


@dataclass(frozen=True, slots=True)
class ComparabilityRule:
    """One thing that must hold before two results stand beside each other."""

    number: str
    name: str
    asks: str
    reason: str
    remedy: str
    breaks: str = ""
    """When the pair is incomparable."""
    differs: str = ""
    """When it stays comparable and the difference is listed; empty where there is no such case."""
    doubts: str = ""
    """When the figures are shown and no verdict rests on them; empty where there is no such case."""


_TABLE = read_table("compare/rules.toml")
RULES = tuple(ComparabilityRule(number, **words) for number, words in _TABLE.items() if number.startswith("R"))
BY_NUMBER: dict[str, ComparabilityRule] = {rule.number: rule for rule in RULES}

RULE_OF_KEY: dict[str, str] = _TABLE["rule_of_key"]
"""Which rule a difference between the contracts falls under; the longest key decides, every other key is R01."""

FEWEST_RESTARTS = 5
"""For a verdict. DESIGN, Intervals: Welch on log means of five restarts covers the truth in 95 % of null pairs."""
SAME_RATE = 0.05
"""Offered rates further apart than this are different loads: the resolution of our saturation search."""
SAME_LENGTH = 0.10
"""Mean token counts further apart than this are other work (MLPerf's audit of output lengths)."""
SAME_CACHED_SHARE = 0.10
"""Shares of input tokens from the cache further apart than this are different work."""


def rule_of_key(key: str) -> str:
    """The number of the rule that a contract key falls under."""
    while key not in RULE_OF_KEY:
        if "." not in key:
            return "R01"
        key = key.rpartition(".")[0]
    return RULE_OF_KEY[key]


def render_rules() -> str:
    """The reference page of the rules."""
    lines = [
        "# Comparability rules",
        "",
        "`lynxbench compare A B` holds a pair against these rules before any ratio is given. A rule that *breaks* "
        "makes the pair incomparable: no ratio is given, and the exit code is 3. One that *differs* leaves it "
        "comparable, with the difference listed. One that *doubts* leaves the figures and takes the verdict: it is "
        "`unproven`, and the exit code is 6. The reasons are told at more length in "
        "[comparability](../methodology/comparability.md).",
        "",
    ]
    for rule in RULES:
        lines += [f"## {rule.number} {rule.name}", "", rule.asks, ""]
        lines += [f"- **Breaks** when {rule.breaks}."] if rule.breaks else ["- Never breaks."]
        lines += [f"- **Differs** when {rule.differs}."] if rule.differs else []
        lines += [f"- **Doubts** when {rule.doubts}."] if rule.doubts else []
        lines += [f"- **Why**: {rule.reason}", f"- **Sound if** you {rule.remedy}.", ""]
    lines += ["## Which contract key falls under which rule", "", "| key | rule |", "|---|---|"]
    lines += [f"| `{key}` | {number} {BY_NUMBER[number].name} |" for key, number in RULE_OF_KEY.items()]
    lines += ["| every other key | R01 contract |", ""]
    lines += [
        "Whether a difference in a key breaks a rule or only differs is said key by key in the table of "
        "`lynxbench contract diff`."
    ]
    return "\n".join(lines) + "\n"
