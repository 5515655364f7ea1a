"""What is known of a branch held against its base: a verdict a contract, and what a pipeline ends with."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from lynxbench.errors import ExitCode
from lynxbench.model.comparison import Comparison, EffectVerdict, RuleOutcome, RuleVerdict
from lynxbench.model.document import Document
from lynxbench.model.verdicts import SteadyVerdict


class CheckVerdict(StrEnum):
    """What one contract says of a branch."""

    PASSED = "passed"
    """Within the budget, or improved."""
    REGRESSED = "regressed"
    """Proven, and proven again by pairs of their own."""
    DOUBT = "doubt"
    """Inconclusive, unproven, incomparable, not confirmed, or slower than a base that does not precede the head: it
    convicts nobody and clears nobody."""
    NEW = "new"
    """The base cannot run it: there is nothing to hold against."""
    BROKEN = "broken"
    """The head cannot run it."""


class FailOn(StrEnum):
    """What a pipeline is to stop at."""

    REGRESSION = "regression"
    DOUBT = "doubt"
    NEVER = "never"


class CodeCommit(Document):
    """A commit, as it was asked for and as it is."""

    asked: str
    sha: str
    subject: str

    @property
    def short(self) -> str:
        """The beginning of its hash, as git shows it."""
        return self.sha[:10]


class ContractCheck(Document):
    """One contract, measured in pairs with the code of both commits."""

    contract: str
    """Its file, from the top of the repository, or the name of a bundled one."""
    name: str
    contract_id: str
    verdict: CheckVerdict
    said: str
    """In a line."""
    file: str = ""
    """Where the measured function stands at the head, from the top of the repository; empty where that is not known."""
    line: int = 1
    comparison: Comparison | None = None
    confirmation: Comparison | None = None
    """A second sitting of pairs, where the first one said regressed."""
    set_aside: Annotated[tuple[str, ...], Field(exclude_if=lambda lines: not lines)] = ()
    """What sittings said that were disturbed, and measured again before anything was concluded, a line each."""
    undecided: Annotated[tuple[str, ...], Field(exclude_if=lambda lines: not lines)] = ()
    """What inconclusive sittings said that were measured again with more restarts, a line each."""


class BranchCheck(Document):
    """A branch held against its base."""

    schema_version: Literal[1] = 1
    base: CodeCommit
    head: CodeCommit
    fail_on: FailOn
    checks: tuple[ContractCheck, ...]
    notes: tuple[str, ...] = ()

    def fails(self, check: ContractCheck) -> bool:
        """Whether a contract's verdict stops the pipeline."""
        match self.fail_on:
            case FailOn.NEVER:
                return False
            case FailOn.DOUBT:
                return check.verdict in (CheckVerdict.REGRESSED, CheckVerdict.BROKEN, CheckVerdict.DOUBT)
        return check.verdict in (CheckVerdict.REGRESSED, CheckVerdict.BROKEN)

    @property
    def exit_code(self) -> ExitCode:
        """1 regressed, 2 the head's code does not run, 6 doubt; the first of these that stops the pipeline."""
        failing = {check.verdict for check in self.checks if self.fails(check)}
        codes = {
            CheckVerdict.REGRESSED: ExitCode.VERDICT_NO,
            CheckVerdict.BROKEN: ExitCode.BAD_INPUT,
            CheckVerdict.DOUBT: ExitCode.UNPROVEN,
        }
        return next((code for verdict, code in codes.items() if verdict in failing), ExitCode.DONE)


def verdict_of(comparison: Comparison, confirmation: Comparison | None) -> CheckVerdict:
    """What two sittings of pairs say together: nobody is convicted by one of them, or by doubtful evidence."""
    if comparison.refused or comparison.verdict is None:
        return CheckVerdict.DOUBT
    match comparison.verdict:
        case EffectVerdict.WITHIN_BUDGET | EffectVerdict.IMPROVED:
            return CheckVerdict.PASSED
        case EffectVerdict.REGRESSED:
            again = confirmation is not None and confirmation.verdict is EffectVerdict.REGRESSED
            return CheckVerdict.REGRESSED if again and not _refused(confirmation) else CheckVerdict.DOUBT
    return CheckVerdict.DOUBT


def is_undecided(comparison: Comparison) -> bool:
    """Whether sound pairs are too few to tell a loss from the budget: more of them may."""
    return comparison.verdict is EffectVerdict.INCONCLUSIVE and not comparison.refused


STEADY_RULE, VALIDITY_RULE = "R09", "R08"
_UNSTEADY = tuple(f"{verdict} (" for verdict in (SteadyVerdict.NOT_STEADY, SteadyVerdict.INCONCLUSIVE))


def is_disturbed(comparison: Comparison) -> bool:
    """Whether nothing but a missing steady state keeps a sitting from a verdict: it says nothing, whichever way."""
    lacking = [rule for rule in comparison.rules if rule.outcome in (RuleVerdict.DOUBTS, RuleVerdict.BREAKS)]
    unsteady = [rule for rule in lacking if rule.rule == STEADY_RULE]
    return bool(unsteady) and all(rule in unsteady or _follows(rule) for rule in lacking)


def _follows(rule: RuleOutcome) -> bool:
    """Whether it doubts a side for its missing steady state alone, which is a reason of doubt as well."""
    reasons = rule.said.partition(" is doubtful: ")[2].split("; ")
    doubts = rule.rule == VALIDITY_RULE and rule.outcome is RuleVerdict.DOUBTS
    return doubts and all(
        reason.partition(": ")[2].startswith(_UNSTEADY) or reason.startswith(_UNSTEADY) for reason in reasons
    )


def _refused(comparison: Comparison | None) -> bool:
    return comparison is None or comparison.refused


# --- the commit that did it ------------------------------------------------------------------------------------------


class CommitVerdict(StrEnum):
    """What is known of a commit on the way."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    """Also with the most restarts."""
    BROKEN = "does not run"


class CommitOutcome(Document):
    """One commit held against the good one."""

    sha: str
    verdict: CommitVerdict
    said: str
    restarts: int


class Bisection(Document):
    """The search for the commit that made it slower, as far as it came."""

    schema_version: Literal[1] = 1
    contract: str
    contract_id: str
    good: CodeCommit
    bad: CodeCommit
    commits: tuple[CodeCommit, ...]
    """After the good one up to the bad one, oldest first; a merge is one of them."""
    outcomes: tuple[CommitOutcome, ...] = ()
    threshold: float | None = None
    """The loss half of the way to the bad one: a commit that loses more is bad."""
    suspects: tuple[CodeCommit, ...] = ()
    """One where it is found; several where those between could not be decided; none before the end."""
    confirmed: bool | None = None
    """Whether the last suspect, held against the commit before the first, is slower; None where that was not asked."""
    ended: str = ""
    """Why it is over, in a line; empty on the way."""

    @property
    def exit_code(self) -> ExitCode:
        """0 one commit, confirmed; 1 the bad one is no slower; 6 a range, or no confirmation."""
        if len(self.suspects) == 1 and self.confirmed:
            return ExitCode.DONE
        first = self.outcomes[0].verdict if self.outcomes else None
        return ExitCode.VERDICT_NO if first is CommitVerdict.GOOD else ExitCode.UNPROVEN
