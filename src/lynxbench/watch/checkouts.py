"""Commits of the repository that a command is given in: named, found, and laid out in trees of their own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lynxbench.errors import BadInput, CannotRun
from lynxbench.experiment.code_places import CodePlace
from lynxbench.model.branch_check import CodeCommit

MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Where a branch came from, if nobody says it: what the remote calls its own, then the usual names."""
SHOWN_FILES = 3
GIT_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, and the folder in it that the command stands in."""

    top: Path
    inside: str

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """The repository that a folder lies in."""
        if shutil.which("git") is None:
            raise CannotRun("git is not installed, and commits are compared; install it")
        words = _git(folder, "rev-parse", "--show-toplevel", "--show-prefix")
        if words is None:
            raise BadInput(f"{folder}: not in a git repository; commits are compared, so stand in one")
        top, inside = [*words.splitlines(), ""][:2]
        return cls(Path(top), inside)

    def commit(self, name: str) -> CodeCommit:
        """The commit that somebody named; BadInput where there is none, with what a shallow clone lacks."""
        words = self._ask("log", "-1", "--format=%H%n%s", "--end-of-options", f"{name}^{{commit}}", "--")
        if words is None:
            raise BadInput(f"{name!r}: no commit of this repository; {self._fetching(name)}")
        sha, subject = [*words.split("\n", 1), ""][:2]
        return CodeCommit(asked=name, sha=sha, subject=subject.strip())

    def base_of(self, head: CodeCommit) -> CodeCommit:
        """Where a branch left the main one."""
        main = next((name for name in MAIN_BRANCHES if self._ask("rev-parse", "--verify", "--quiet", name)), None)
        if main is None:
            known = ", ".join(MAIN_BRANCHES)
            raise BadInput(f"no main branch ({known}) to hold {head.asked} against; name the base with --base REF")
        sha = self._ask("merge-base", head.sha, main)
        if sha is None:
            raise BadInput(f"{head.asked} and {main} share no commit that is here; {self._fetching(main)}")
        return self.commit(sha.strip()).model_copy(update={"asked": f"merge base with {main}"})

    def refuse_changes(self) -> None:
        """What is not committed would not be measured."""
        listed = (self._ask("status", "--porcelain", "--untracked-files=no") or "").splitlines()
        if listed:
            named = ", ".join(line[3:] for line in listed[:SHOWN_FILES]) + (" …" if len(listed) > SHOWN_FILES else "")
            raise BadInput(f"changes that are not committed would not be measured: {named}; commit or stash them")

    def between(self, good: CodeCommit, bad: CodeCommit) -> tuple[CodeCommit, ...]:
        """The commits after a good one up to a bad one, oldest first; along first parents, so a merge is one."""
        if self._ask("merge-base", "--is-ancestor", good.sha, bad.sha) is None:
            swapped = self._ask("merge-base", "--is-ancestor", bad.sha, good.sha) is not None
            step = "it comes after it: name the earlier one first" if swapped else self._fetching(good.asked)
            raise BadInput(f"{good.asked} is no ancestor of {bad.asked}; {step}")
        listed = self._ask("rev-list", "--first-parent", "--reverse", "--format=%H %s", f"{good.sha}..{bad.sha}") or ""
        rows = [line.partition(" ") for line in listed.splitlines() if not line.startswith("commit ")]
        if rows:
            self._refuse_beside(good, bad, rows[0][0])
        return tuple(CodeCommit(asked=sha[:10], sha=sha, subject=subject) for sha, _, subject in rows)

    def _refuse_beside(self, good: CodeCommit, bad: CodeCommit, oldest: str) -> None:
        """A good commit beside the line: those of the line that lack its changes would be blamed for lacking them."""
        before = (self._ask("rev-parse", "--verify", "--quiet", f"{oldest}^1") or "").strip()
        if before != good.sha:
            line = f"the line of first parents of {bad.asked}: a merge brought it in"
            near = f"such as {before[:10]}" if before else f"see `git log --first-parent {bad.asked}`"
            raise BadInput(f"{good.asked} is not on {line}; name a good one of that line, {near}")

    def lacks_of_base(self, base: CodeCommit, head: CodeCommit) -> str:
        """Why a head does not hold all of its base; empty where the base precedes it, and every difference is its own.

        What the base has beyond the head makes the head slower by lacking it, and that is no change of the head's.
        """
        if self._ask("merge-base", "--is-ancestor", base.sha, head.sha) is not None:
            return ""
        said = f"the base ({base.asked}, {base.short}) does not precede the head ({head.asked}, {head.short})"
        if self._ask("merge-base", "--is-ancestor", head.sha, base.sha) is not None:
            return f"{said}: it comes after it; name the earlier commit with --base, the later with --head"
        fork = (self._ask("merge-base", base.sha, head.sha) or "").strip()
        if not fork:
            return f"{said}: they share no commit that is here; {self._fetching(base.asked)}"
        many = (self._ask("rev-list", "--count", f"{head.sha}..{base.sha}") or "?").strip()
        counted = f"{many} commit{'' if many == '1' else 's'}"
        return f"{said}: it has {counted} that the head lacks; --base {fork[:10]} is where they parted"

    def files(self, commit: CodeCommit) -> tuple[str, ...]:
        """Every file of a commit, from the top."""
        listed = self._ask("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit.sha) or ""
        return tuple(name for name in listed.split("\0") if name)

    def packages(self, commit: CodeCommit) -> frozenset[str]:
        """Names under which a commit's own packages are imported, wherever in the tree they lie."""
        folders = {file.parent for file in map(PurePosixPath, self.files(commit)) if file.name == "__init__.py"}
        return frozenset(folder.name for folder in folders if folder.name and folder.parent not in folders)

    @contextmanager
    def trees(self) -> Iterator["Trees"]:
        """A folder for trees of commits, outside of the repository; they are taken away at the end."""
        with tempfile.TemporaryDirectory(prefix="lynxbench-commits-", ignore_cleanup_errors=True) as folder:
            trees = Trees(self, Path(folder).resolve())
            try:
                yield trees
            finally:
                trees.remove_all()

    def _fetching(self, name: str) -> str:
        if (self._ask("rev-parse", "--is-shallow-repository") or "").strip() == "true":
            return "this clone is shallow: `git fetch --unshallow` (fetch-depth: 0, GIT_DEPTH: 0) brings its history"
        return f"`git fetch` brings what the remote has, `git log {name}` shows what is here"

    def _ask(self, *words: str) -> str | None:
        return _git(self.top, *words)


class Trees:
    """Trees of commits that stand at the same time."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self._repository, self._folder = repository, folder
        self._standing: dict[str, Path] = {}

    def lay_out(self, commit: CodeCommit, name: str, prepare: str | None = None) -> CodePlace:
        """The tree of a commit, under a name; `prepare` is a command of the user's that readies it.

        Names are as long as one another: the length of a path alone can move what is measured (Mytkowicz et al. 2009).
        """
        tree = self._folder / name
        self.remove(name)
        hooks = ("-c", f"core.hooksPath={os.devnull}")
        done = _call(
            self._repository.top, *hooks, "worktree", "add", "--quiet", "--force", "--detach", str(tree), commit.sha
        )
        self._standing[name] = tree
        if done.returncode != 0:
            raise CannotRun(f"{commit.asked}: its tree cannot be laid out: {_last_line(done.stderr)}")
        place = CodePlace(commit.sha, tree, self._repository.inside, self._repository.top)
        if not place.folder.is_dir():
            raise CannotRun(f"{commit.asked} has no folder {self._repository.inside}")
        if prepare is not None:
            _prepare(place, prepare)
        return place

    def remove(self, name: str) -> None:
        """Take a tree away, also from git's book of them."""
        tree = self._standing.pop(name, None)
        if tree is not None:
            _call(self._repository.top, "worktree", "remove", "--force", "--force", str(tree))

    def remove_all(self) -> None:
        """Take every tree away."""
        for name in tuple(self._standing):
            self.remove(name)


def _prepare(place: CodePlace, command: str) -> None:
    with place.standing():
        done = subprocess.run(
            command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        said = _last_line(done.stderr or done.stdout)
        raise CannotRun(f"--prepare ended with code {done.returncode} at {place.commit[:10]}: {said}")


def _git(folder: Path, *words: str) -> str | None:
    """What git answers; None where it says no."""
    done = _call(folder, *words)
    return done.stdout if done.returncode == 0 else None


def _call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", *words],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"git {words[0]}: {error}") from None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:400] if lines else "no message"
