"""The order of `lynxbench bisect`: each midpoint in pairs with the good commit, until one is left, or those that are.

The bad one is measured first. A commit is bad where it loses more than half way to that: this separates before from
after best, and needs no budget as tight as a gate's. What stays in doubt is measured with more restarts, then passed
over. The end is held against the commit before it, in pairs of their own.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lynxbench.errors import BadInput, CannotRun, HalfCannotRun, Interrupted
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.folders import dated_name, make_folder, newest_unfinished
from lynxbench.evidence.whole_files import write_text
from lynxbench.experiment.cells import changed
from lynxbench.experiment.code_places import CodePlace
from lynxbench.model.branch_check import Bisection, CodeCommit, CommitOutcome, CommitVerdict
from lynxbench.model.comparison import Comparison, EffectVerdict
from lynxbench.model.contract import Contract
from lynxbench.report.documents.branch_document import comparison_line, leading_effect
from lynxbench.report.words import count
from lynxbench.watch.checkouts import Repository, Trees
from lynxbench.watch.commit_pairs import CommitPairs, find_function
from lynxbench.watch.commit_search import narrow

BISECTION_FILE = "bisection.json"
OUTCOME_FILE = "bisected.json"
RETRIES = (1, 2, 4)
"""Times the contract's restarts: a commit that four times as many do not decide is passed over."""
GOOD, LOOK = "good", "look"
"""Names of the two trees, as long as each other."""


@dataclass(slots=True)
class BisectionFolder:
    """A search on disk: what was asked and how far it came."""

    path: Path
    state: Bisection

    @classmethod
    def create(cls, out: Path, state: Bisection, name: str) -> "BisectionFolder":
        """Begin a new one under `out`."""
        path = out / dated_name(f"{name}-bisect", datetime.now(UTC))
        make_folder(path)
        folder = cls(path, state)
        folder.set()
        return folder

    @classmethod
    def open(cls, path: Path) -> "BisectionFolder":
        """One that was begun earlier."""
        return cls(path, read_document(path / BISECTION_FILE, Bisection, "not the folder of a bisection"))

    def set(self, **changes: object) -> None:
        """Note something, on disk at once."""
        self.state = self.state.model_copy(update=changes)
        name = OUTCOME_FILE if self.state.ended else BISECTION_FILE
        write_text(self.path / name, self.state.model_dump_json(indent=1))


def open_bisection(out: Path, asked: Bisection, name: str, *, resume: bool) -> BisectionFolder:
    """A new search, or the newest unfinished one of the same question."""
    if not resume:
        return BisectionFolder.create(out, asked, name)
    question = (asked.contract_id, asked.good.sha, asked.bad.sha, asked.commits)
    begun = newest_unfinished(
        out,
        BISECTION_FILE,
        OUTCOME_FILE,
        BisectionFolder.open,
        lambda one: (one.state.contract_id, one.state.good.sha, one.state.bad.sha, one.state.commits) == question,
    )
    if begun is None:
        raise BadInput(f"{out}: no unfinished bisection of these commits by this contract; start one without --resume")
    return begun


class CommitHunt:
    """One search at work."""

    def __init__(
        self,
        folder: BisectionFolder,
        contract: Contract,
        repository: Repository,
        pairs: CommitPairs,
        prepare: str | None = None,
    ) -> None:
        self._folder, self._contract, self._repository = folder, contract, repository
        self._pairs, self._prepare = pairs, prepare
        self._packages = repository.packages(folder.state.good) | repository.packages(folder.state.bad)

    def carry_out(self) -> Bisection:
        """Look at commits until the search ends; what is known is on disk after each."""
        try:
            with self._repository.trees() as trees:
                self._search(trees)
        except (KeyboardInterrupt, Interrupted):
            raise Interrupted.while_kept_in(self._folder.path) from None
        return self._folder.state

    def _search(self, trees: Trees) -> None:
        state = self._folder.state
        good = self._good_place(trees)
        if not state.outcomes and not self._bad_is_bad(trees, good):
            return
        shas = [commit.sha for commit in state.commits]
        while True:
            state = self._folder.state
            stretch = narrow(shas, {outcome.sha: outcome.verdict for outcome in state.outcomes})
            if stretch.next is None:
                break
            commit = state.commits[stretch.next]
            self._pairs.tell(f"{count(stretch.last - stretch.before, 'commit')} left: {commit.short} {commit.subject}")
            self._note(self._look(trees, good, commit, self._bounded(state.threshold)))
        before = state.good if stretch.before < 0 else state.commits[stretch.before]
        self._conclude(trees, before, state.commits[stretch.before + 1 : stretch.last + 1])

    def _bad_is_bad(self, trees: Trees, good: CodePlace) -> bool:
        """Whether there is anything to look for; then what is looked for."""
        bad = self._folder.state.bad
        self._pairs.tell(f"{bad.short} {bad.subject}: is it slower at all?")
        outcome = self._look(trees, good, bad, self._contract)
        self._note(outcome)
        if outcome.verdict is CommitVerdict.BAD:
            return True
        words = {
            CommitVerdict.GOOD: "is not slower than the good one beyond the budget; there is nothing to find",
            CommitVerdict.UNDECIDED: "is not proven slower than the good one; nothing can be found by it",
            CommitVerdict.BROKEN: "does not run; name a bad commit that does",
        }
        self._folder.set(ended=f"{bad.short} {words[outcome.verdict]}: {outcome.said}")
        return False

    def _good_place(self, trees: Trees) -> CodePlace:
        good = self._folder.state.good
        try:
            place = trees.lay_out(good, GOOD, self._prepare)
            find_function(self._contract, place, self._packages)
        except CannotRun as error:
            raise CannotRun(
                f"{good.asked}: the good commit does not run, so nothing can be held against it: {error}"
            ) from None
        return place

    def _look(self, trees: Trees, good: CodePlace, commit: CodeCommit, contract: Contract) -> CommitOutcome:
        """Hold a commit against the good one; with more restarts where it stays in doubt."""
        said, restarts = "", 0
        try:
            place = trees.lay_out(commit, LOOK, self._prepare)
            find_function(contract, place, self._packages)
            for times in RETRIES:
                asked = changed(contract, {}, restarts=times * contract.protocol.restarts)
                comparison = self._pairs.compare(good, place, asked)
                said, restarts = comparison_line(comparison), asked.protocol.restarts
                verdict = _decided(comparison)
                if verdict is not None:
                    if self._folder.state.threshold is None and verdict is CommitVerdict.BAD:
                        self._folder.set(threshold=_half_way(comparison))
                    return CommitOutcome(sha=commit.sha, verdict=verdict, said=said, restarts=restarts)
                self._pairs.tell(f"  {said}")
        except HalfCannotRun as error:
            if error.half == "A":
                raise CannotRun(f"the commit that is held against does not run: {error.why}") from None
            return CommitOutcome(sha=commit.sha, verdict=CommitVerdict.BROKEN, said=error.why, restarts=0)
        except CannotRun as error:
            return CommitOutcome(sha=commit.sha, verdict=CommitVerdict.BROKEN, said=str(error), restarts=0)
        return CommitOutcome(sha=commit.sha, verdict=CommitVerdict.UNDECIDED, said=said, restarts=restarts)

    def _conclude(self, trees: Trees, before: CodeCommit, suspects: tuple[CodeCommit, ...]) -> None:
        """Hold the last suspect against the commit before the first."""
        last = suspects[-1]
        self._pairs.tell(f"{last.short} against {before.short}, to confirm it")
        place = trees.lay_out(before, GOOD, self._prepare)
        outcome = self._look(trees, place, last, self._bounded(self._folder.state.threshold))
        confirmed = outcome.verdict is CommitVerdict.BAD
        if len(suspects) == 1:
            words = f"{last.short} {last.subject}"
        else:
            words = f"one of these {len(suspects)}: {', '.join(commit.short for commit in suspects)}"
        how = f"confirmed against {before.short}" if confirmed else f"not confirmed against {before.short}"
        self._folder.set(suspects=suspects, confirmed=confirmed, ended=f"{words}; {how}: {outcome.said}")

    def _note(self, outcome: CommitOutcome) -> None:
        self._pairs.tell(f"  {outcome.verdict}: {outcome.said}")
        self._folder.set(outcomes=(*self._folder.state.outcomes, outcome))

    def _bounded(self, threshold: float | None) -> Contract:
        """The contract with the threshold as the loss that is borne: another contract, and its results say so."""
        if threshold is None:
            return self._contract
        return changed(self._contract, {"policy.regression": f"{threshold:.4%}"})


def _decided(comparison: Comparison) -> CommitVerdict | None:
    match comparison.verdict:
        case EffectVerdict.REGRESSED:
            return CommitVerdict.BAD
        case EffectVerdict.WITHIN_BUDGET | EffectVerdict.IMPROVED:
            return CommitVerdict.GOOD
    return None


def _half_way(comparison: Comparison) -> float:
    """The loss half of the way from the good level to the bad one, by ratio; a contract takes up to 100 %."""
    effect = leading_effect(comparison)
    assert effect is not None
    root = math.sqrt(effect.ratio.estimate)
    return round(min(1.0, 1 - root if effect.higher_is_better else root - 1), 6)
