"""The comparability rules as data: numbered, each with what it asks, why, and what makes a pair sound that breaks it.

The numbers are stable: a rule that goes leaves a gap, a new one takes the next number. `docs/reference/` shows them.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ComparabilityRule:
    """One thing that must hold before two results stand beside each other."""

    number: str
    name: str
    asks: str
    breaks: str
    """When the pair is incomparable."""
    differs: str
    """When it stays comparable and the difference is listed; empty where there is no such case."""
    reason: str
    remedy: str
    doubts: str = ""
    """When the figures are shown and no verdict rests on them; empty where there is no such case."""


RULES: tuple[ComparabilityRule, ...] = (
    ComparabilityRule(
        "R01",
        "contract",
        "Both were measured under one contract meaning.",
        "a key that decides what is executed or counted differs",
        "keys differ that change neither the work nor the counting",
        "Another question has another answer; the id of the contract covers its whole meaning.",
        "run both under one contract",
    ),
    ComparabilityRule(
        "R02",
        "protocol",
        "The protocol, the contract format and the result format have the same version.",
        "protocol, contract format or result format differ in version",
        "the versions of lynxbench differ",
        "A protocol version is raised exactly when the meaning of a measured number changes.",
        "measure the older one again with this version of lynxbench",
    ),
    ComparabilityRule(
        "R03",
        "division",
        "The same division, and within it the same knobs and tuning budget.",
        "division, knobs, trials or tuning time differ",
        "",
        "A tuned figure against an untuned one shows the tuning, not the executor.",
        "run both in the same division with the same optimisation section",
    ),
    ComparabilityRule(
        "R04",
        "precision",
        "Both measured the same precision, executed the same way.",
        "no precision was measured in both, or the accuracy reference differs",
        "native in one and emulated in the other, or a precision that only one measured",
        "Another number format is other arithmetic at another accuracy.",
        "run both at one precision",
    ),
    ComparabilityRule(
        "R05",
        "accuracy",
        "Both pass the same accuracy gate, with losses closer than what the gate allows.",
        "one passes the gate and the other does not, the gates count in different metrics, or the losses are further "
        "apart than the largest loss allowed",
        "the accuracy of one or both is not known, neither passes, or one gate is stricter",
        "Speed is cheap if wrong answers are allowed.",
        "bring both under the contract's accuracy gate, or agree on another gate before measuring",
    ),
    ComparabilityRule(
        "R06",
        "units",
        "Both count the same unit of work.",
        "the units differ",
        "",
        "Requests a second and tokens a second have no ratio.",
        "count the same unit of work in both",
    ),
    ComparabilityRule(
        "R07",
        "token counting",
        "Tokens were counted by the same source, and as many were asked and answered.",
        "the sources differ, or are unknown in one, or the mean input or output length differs by more than 10 %",
        "neither run knows where its token counts come from, or one event was not one token in one of them",
        "A server's usage and a tokenizer disagree; answers that end early are less work (MLPerf bounds output length "
        "at ±10 %).",
        "count tokens by the same source, and hold the output length (ignore the end of text)",
    ),
    ComparabilityRule(
        "R08",
        "validity",
        "Neither run is void or doubtful.",
        "a run or its figure at this precision is void",
        "",
        "A void run's figures are nobody's; a doubtful one's carry their reasons with them, and convict nobody.",
        "measure the void or doubtful one again, without what made it so",
        "a run or its figure at this precision is doubtful (foreign load, throttling, failed processes …)",
    ),
    ComparabilityRule(
        "R09",
        "steadiness",
        "Both reached steady state.",
        "one was found not to be steady",
        "",
        "A drifting level has no value that a ratio could be taken of.",
        "run the unsteady one longer (a higher limit), or remove what moves it",
        "for one it could not be shown either way",
    ),
    ComparabilityRule(
        "R10",
        "executor record",
        "The executor was captured at both ends of each run and did not change in between.",
        "the executor drifted during a run, or its record is empty",
        "a layer is recorded in one and not in the other",
        "A figure belongs to a stack; without its record nobody knows to which.",
        "measure again on a machine that nobody changes meanwhile",
    ),
    ComparabilityRule(
        "R11",
        "load",
        "The same batch, lengths, arrivals and concurrency, offered at the same rate.",
        "batch, lengths or arrivals differ, or the offered rates are more than 5 % apart",
        "the numbers of client processes differ",
        "Throughput and latency both move with the load; each is said at one load only.",
        "offer the same load to both",
    ),
    ComparabilityRule(
        "R12",
        "cache regime",
        "The same cache regime, and as much answered from the cache.",
        "the regimes or the prompts' repetition differ, or the cached shares are more than 10 points apart",
        "one server does not say how much came from its cache",
        "A cached prefix is work that was not done.",
        "run both with the same cache regime, from the same cache state",
    ),
    ComparabilityRule(
        "R13",
        "instrument",
        "The load generator kept within its bounds, and the bounds are the same.",
        "the instrument was void in one, or its bounds or timeouts differ",
        "the instrument carried cautions in one",
        "A client at its limit measures itself.",
        "give the client more processes or a machine of its own, then measure again",
    ),
    ComparabilityRule(
        "R14",
        "restarts",
        "At least five fresh processes on each side.",
        "",
        "one has fewer: the effect is given, the verdict is inconclusive",
        "The unit of repetition is a process; fewer than five leave the spread between them unknown.",
        "run both with protocol.restarts at 5 or more",
    ),
    ComparabilityRule(
        "R15",
        "counting",
        "The same steadiness test, shortest duration and bound on foreign load.",
        "one of them differs",
        "keys of the protocol differ that do not change what is counted",
        "What is counted decides the number: a shorter run hides what heat and power limits do later.",
        "run both under one protocol",
    ),
    ComparabilityRule(
        "R16",
        "standing",
        "Neither result is retracted, and nobody contests one.",
        "a result is retracted",
        "a result is contested and the contest is open",
        "What its own team took back is no evidence; what another team doubts is shown with the doubt.",
        "use the result that replaces the retracted one, or settle the contest by a re-run",
    ),
    ComparabilityRule(
        "R17",
        "model",
        "The same weights, by their hash.",
        "another model, architecture or number of parameters",
        "the hashes differ under one architecture and size (model drift), or one is not recorded",
        "Another model is other work; retrained weights of one shape are the same work and are said to be others.",
        "measure both with the same weights",
    ),
    ComparabilityRule(
        "R18",
        "evidence",
        "Both were measured by lynxbench under a contract, with samples and executor.",
        "one is a foreign result",
        "",
        "What a foreign tool does not state cannot be held against what we do.",
        "measure the same workload with lynxbench run on that executor",
    ),
)
BY_NUMBER: dict[str, ComparabilityRule] = {rule.number: rule for rule in RULES}

RULE_OF_KEY: dict[str, str] = {
    "lynxbench": "R02",
    "protocol.version": "R02",
    "optimisation": "R03",
    "workload.precisions": "R04",
    "policy.accuracy": "R05",
    "workload.batch": "R11",
    "workload.arrival": "R11",
    "workload.input_tokens": "R11",
    "workload.output_tokens": "R11",
    "engine.turns": "R11",
    "engine.think": "R11",
    "engine.cache": "R12",
    "engine.prompts": "R12",
    "engine.timeouts": "R13",
    "engine.instrument": "R13",
    "protocol.restarts": "R14",
    "protocol": "R15",
    "workload.model": "R17",
}
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
