"""The order of `lynxbench ci`: every contract of a repository, measured in pairs with the code of base and head."""

import re
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lynxbench.compare.rules import FEWEST_RESTARTS
from lynxbench.contract.loader import CONTRACT, bundled_names, parse_contract, read_contract
from lynxbench.errors import BadFile, BadInput, CannotRun, HalfCannotRun
from lynxbench.experiment.cells import changed
from lynxbench.experiment.code_places import CodePlace
from lynxbench.model.branch_check import (
    BranchCheck,
    CheckVerdict,
    CodeCommit,
    ContractCheck,
    FailOn,
    is_disturbed,
    is_undecided,
    verdict_of,
)
from lynxbench.model.comparison import Comparison, EffectVerdict
from lynxbench.model.contract import Contract
from lynxbench.model.serving import ServedEngine
from lynxbench.reading import read_text
from lynxbench.report.documents.branch_document import comparison_line
from lynxbench.report.words import count
from lynxbench.watch.checkouts import Repository
from lynxbench.watch.commit_pairs import CommitPairs, FunctionPlace, find_function

CONTRACT_FILES = (".yaml", ".yml")
_KEYS = tuple(re.compile(rf"^{key}\s*:", re.MULTILINE) for key in ("lynxbench", "workload"))
"""At the beginning of a line in every contract, and in no other file of ours."""
NAMES = ("base", "head")
MOST_SITTINGS = 3
"""A sitting that was disturbed is measured again, up to so many in all. Which one counts is decided by steadiness
alone, never by what it says: a further one gives chance no second try."""
LARGEST_TIMES = 4
"""Times the contract's restarts with which it is measured at most while it stays inconclusive."""


@dataclass(frozen=True, slots=True)
class NamedContract:
    """A contract and where it stands: from the top of the repository, or a bundled name."""

    file: str
    contract: Contract


def check_branch(
    repository: Repository,
    base: CodeCommit,
    head: CodeCommit,
    named: Sequence[str],
    pairs: CommitPairs,
    fail_on: FailOn,
    prepare: str | None = None,
    times: int = LARGEST_TIMES,
) -> BranchCheck:
    """Hold the head against the base by the contracts that are named, or by all that the head has."""
    if base.sha == head.sha:
        raise BadInput(f"{head.asked} is its own base ({head.short}); name another with --base, such as HEAD~1")
    with repository.trees() as trees:
        places = [trees.lay_out(commit, name, prepare) for commit, name in zip((base, head), NAMES, strict=True)]
        apart = repository.lacks_of_base(base, head)
        notes = [f"{apart}. What differs is not the head's alone: nobody is blamed for a loss"] if apart else []
        if named:
            contracts = [_named(name, places[1], repository) for name in named]
        else:
            contracts = _found(repository, head, places[1], notes)
            kept = {found.file for found in contracts}
            gone = [file for file in _contract_files(repository, base, places[0]) if file not in kept]
            notes += [f"{file}: a contract of the base that the head does not have" for file in gone]
        notes += [note for found in contracts if (note := _changed(found, places[0]))]
        packages = repository.packages(base) | repository.packages(head)
        checks = []
        for number, found in enumerate(contracts, 1):
            pairs.tell(f"{found.file} ({number}/{len(contracts)})")
            check = _unblamed(_check(found, places[0], places[1], packages, pairs, times), apart)
            pairs.tell(f"  {check.verdict}: {check.said}")
            checks.append(check)
    return BranchCheck(base=base, head=head, fail_on=fail_on, checks=tuple(checks), notes=tuple(notes))


def _check(
    found: NamedContract,
    base: CodePlace,
    head: CodePlace,
    packages: frozenset[str],
    pairs: CommitPairs,
    most_times: int = LARGEST_TIMES,
) -> ContractCheck:
    function = FunctionPlace()

    def concluded(verdict: CheckVerdict, said: str, **more: object) -> ContractCheck:
        check = ContractCheck(
            contract=found.file,
            name=found.contract.name,
            contract_id=found.contract.contract_id,
            verdict=verdict,
            said=said,
            file=function.file,
            line=function.line,
        )
        return check.model_copy(update=more)

    set_aside: list[str] = []
    undecided: list[str] = []

    def sat(contract: Contract) -> Comparison:
        """A sitting that says something, or the last of so many."""
        comparison = pairs.compare(base, head, contract)
        for _ in range(MOST_SITTINGS - 1):
            if not is_disturbed(comparison):
                break
            set_aside.append(comparison_line(comparison))
            pairs.tell("  disturbed: it says nothing; measured again")
            comparison = pairs.compare(base, head, contract)
        return comparison

    def compared(times: int = 1) -> tuple[Comparison, int]:
        """A sitting that decides, and with how many times the restarts; or the largest that is allowed.

        Who asked for fewer restarts than any verdict needs, asked for none.
        """
        restarts = found.contract.protocol.restarts
        most = most_times if restarts >= FEWEST_RESTARTS else 1
        while True:
            asked = found.contract if times == 1 else changed(found.contract, {}, restarts=times * restarts)
            comparison = sat(asked)
            if not is_undecided(comparison) or 2 * times > most:
                return comparison, times
            times *= 2
            undecided.append(comparison_line(comparison))
            pairs.tell(f"  inconclusive; measured again with {times * restarts} pairs")

    half = "B"
    try:
        function = find_function(found.contract, head, packages)
        half = "A"
        find_function(found.contract, base, packages)
        (comparison, times), confirmation = compared(), None
        if comparison.verdict is EffectVerdict.REGRESSED:
            pairs.tell("  regressed; measured again to confirm it")
            confirmation, times = compared(times)
    except CannotRun as error:
        broken = (error.half if isinstance(error, HalfCannotRun) else half) == "B"
        why = error.why if isinstance(error, HalfCannotRun) else str(error)
        if broken:
            return concluded(CheckVerdict.BROKEN, f"the head does not run it: {why}")
        return concluded(CheckVerdict.NEW, f"nothing to hold against; the base does not run it: {why}")
    said = comparison_line(comparison)
    if confirmation is not None:
        said += f"; measured again: {comparison_line(confirmation)}"
    if set_aside:
        said += f"; {count(len(set_aside), 'disturbed sitting')} set aside"
    if undecided:
        said += f"; inconclusive before, so {times} times the restarts"
    kept = {"set_aside": tuple(set_aside), "undecided": tuple(undecided)}
    verdict = verdict_of(comparison, confirmation)
    return concluded(verdict, said, comparison=comparison, confirmation=confirmation, **kept)


def _unblamed(check: ContractCheck, apart: str) -> ContractCheck:
    """A loss against a base that does not precede the head may be what the head lacks: it convicts nobody."""
    if not apart or check.verdict is not CheckVerdict.REGRESSED:
        return check
    said = f"slower than the base, which does not precede it, so not shown to be the head's doing; {check.said}"
    return check.model_copy(update={"verdict": CheckVerdict.DOUBT, "said": said})


# --- which contracts --------------------------------------------------------------------------------------------------


def _named(name: str, head: CodePlace, repository: Repository) -> NamedContract:
    with chdir(head.folder):
        there = Path(name)
        if name in bundled_names() or there.is_absolute():
            return NamedContract(name, _paired(read_contract(name), name))
        if there.exists():
            file = there.resolve()
            shown = file.relative_to(head.tree).as_posix() if file.is_relative_to(head.tree) else name
            return NamedContract(shown, _paired(read_contract(name), name))
    if (repository.top / repository.inside / name).exists():
        raise BadInput(f"{name}: it is here, but not in the commit that is measured; commit it")
    raise BadInput(f"{name}: no such file in the commit that is measured, and no bundled contract of this name")


def _paired(contract: Contract, name: str) -> Contract:
    if isinstance(contract.engine, ServedEngine):
        raise BadInput(f"{name}: it asks a server, whose code is not that of a commit; leave it out")
    return contract


def _found(repository: Repository, head: CodeCommit, place: CodePlace, notes: list[str]) -> list[NamedContract]:
    contracts = []
    for file in _contract_files(repository, head, place):
        contract = parse_contract(read_text(place.tree / file, CONTRACT.noun), file)
        if isinstance(contract.engine, ServedEngine):
            notes.append(f"{file}: left out: it asks a server, whose code is not that of a commit")
        else:
            contracts.append(NamedContract(file, contract))
    if not contracts:
        where = repository.inside or "the repository"
        raise BadInput(f"{where}: no contract that measures code; write one (`lynxbench quick module:function`)")
    return contracts


def _contract_files(repository: Repository, commit: CodeCommit, place: CodePlace) -> list[str]:
    """The files of a commit, at and below the command's folder, that are contracts."""
    files = [file for file in repository.files(commit) if PurePosixPath(file).suffix in CONTRACT_FILES]
    below = [file for file in files if file.startswith(repository.inside) and (place.tree / file).is_file()]
    texts = {file: (place.tree / file).read_text(encoding="utf-8", errors="replace") for file in below}
    return [file for file, text in texts.items() if all(key.search(text) for key in _KEYS)]


def _changed(found: NamedContract, base: CodePlace) -> str:
    """Whether the base measures otherwise: then the head's contract decides, for both."""
    file = base.tree / found.file
    if not file.is_file():
        return ""
    try:
        before = parse_contract(file.read_text(encoding="utf-8", errors="replace"), found.file)
    except BadFile:
        return f"{found.file}: at the base it is no contract; both sides are measured by the head's"
    if before.contract_id == found.contract.contract_id:
        return ""
    return f"{found.file}: the head changes what is agreed; both sides are measured by the head's"
