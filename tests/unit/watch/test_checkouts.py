"""Commits by name, what is said where they are not there, and trees that leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from committed import CommittedProject
from lynxbench.errors import BadInput, CannotRun
from lynxbench.watch.checkouts import Repository


@pytest.fixture
def project(tmp_path: Path) -> CommittedProject:
    project = CommittedProject.begin(tmp_path / "project")
    project.commit(
        "first", {"a.py": "A = 1\n", "pkg/__init__.py": "", "pkg/deep/__init__.py": "", "lib/own/__init__.py": ""}
    )
    project.git("checkout", "--quiet", "-b", "feature")
    project.commit("second: with | signs", {"a.py": "A = 2\n"})
    return project


def test_a_branch_is_held_against_where_it_left_the_main_one(project: CommittedProject) -> None:
    project.git("checkout", "--quiet", "main")
    project.commit("main went on", {"b.py": ""})
    project.git("checkout", "--quiet", "feature")
    repository = Repository.around(project.top)
    head = repository.commit("HEAD")
    assert head.subject == "second: with | signs"
    base = repository.base_of(head)
    assert (base.subject, base.asked) == ("first", "merge base with main")


def test_packages_are_those_of_the_tree_wherever_they_lie(project: CommittedProject) -> None:
    repository = Repository.around(project.top)
    assert repository.packages(repository.commit("HEAD")) == {"pkg", "own"}


def test_trees_hold_their_own_code_and_leave_nothing_behind(project: CommittedProject) -> None:
    hook = project.top / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(0o755)
    (project.top / "pkg" / "inner").mkdir()
    repository = Repository.around(project.top)
    with repository.trees() as trees:
        places = {
            name: trees.lay_out(repository.commit(ref), name) for name, ref in (("base", "main"), ("head", "HEAD"))
        }
        assert [(place.folder / "a.py").read_text() for place in places.values()] == ["A = 1\n", "A = 2\n"]
        assert len({len(str(place.tree)) for place in places.values()}) == 1
        assert not (places["base"].tree / "hooked").exists()
        again = trees.lay_out(repository.commit("HEAD"), "base")
        assert (again.folder / "a.py").read_text() == "A = 2\n"
        kept = places["base"].tree.parent
    assert not kept.exists()
    assert len(project.git("worktree", "list").splitlines()) == 1
    assert project.git("status", "--porcelain") == ""


def test_trees_are_readied_by_a_command_and_its_failure_is_one_line(project: CommittedProject) -> None:
    repository = Repository.around(project.top)
    with repository.trees() as trees:
        place = trees.lay_out(repository.commit("HEAD"), "head", "cat a.py > made.py")
        assert (place.folder / "made.py").read_text() == "A = 2\n"
        with pytest.raises(CannotRun, match=r"--prepare ended with code 3 at \w{10}: no compiler"):
            trees.lay_out(repository.commit("HEAD"), "head", "echo no compiler >&2; exit 3")
    assert len(project.git("worktree", "list").splitlines()) == 1


def test_a_folder_inside_stands_for_the_same_folder_in_every_tree(project: CommittedProject) -> None:
    repository = Repository.around(project.top / "pkg")
    with repository.trees() as trees:
        place = trees.lay_out(repository.commit("HEAD"), "head")
        assert place.folder == place.tree / "pkg"
        project.git("rm", "-q", "-r", "pkg")
        gone = project.commit("no pkg", {})
        with pytest.raises(CannotRun, match="has no folder pkg/"):
            trees.lay_out(repository.commit(gone), "base")


@pytest.mark.parametrize("name", ["nothing", "-q", "--all", "HEAD~99", "", "HEAD:a.py"])
def test_a_name_of_no_commit_is_one_line(project: CommittedProject, name: str) -> None:
    with pytest.raises(BadInput, match="no commit of this repository; `git fetch`"):
        Repository.around(project.top).commit(name)


def test_a_shallow_clone_says_what_it_lacks(project: CommittedProject, tmp_path: Path) -> None:
    project.git("clone", "--quiet", "--depth=1", "--branch=feature", f"file://{project.top}", str(tmp_path / "clone"))
    repository = Repository.around(tmp_path / "clone")
    head = repository.commit("HEAD")
    for ask in (lambda: repository.commit("HEAD~1"), lambda: repository.commit("main")):
        with pytest.raises(BadInput, match=r"this clone is shallow: .*fetch-depth: 0"):
            ask()
    assert repository.base_of(head).sha == head.sha, "origin/HEAD is all that is here; `ci` refuses its own base"


def test_other_ends_are_one_line_each(project: CommittedProject, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not in a git repository"):
        Repository.around(tmp_path)
    repository = Repository.around(project.top)
    repository.refuse_changes()
    (project.top / "untracked.txt").write_text("x")
    repository.refuse_changes()
    (project.top / "a.py").write_text("A = 3\n")
    with pytest.raises(BadInput, match=r"not committed would not be measured: a\.py; commit or stash"):
        repository.refuse_changes()
    project.git("branch", "-m", "main", "trunk")
    with pytest.raises(BadInput, match=r"no main branch .*--base REF"):
        repository.base_of(repository.commit("HEAD"))


def test_commits_between_are_oldest_first_and_a_merge_is_one(project: CommittedProject) -> None:
    project.git("checkout", "--quiet", "main")
    project.commit("aside", {"b.py": ""})
    project.git("merge", "--quiet", "--no-ff", "--message", "merged", "feature")
    project.commit("last", {"c.py": ""})
    repository = Repository.around(project.top)
    first, last = repository.commit("main~3"), repository.commit("main")
    assert [commit.subject for commit in repository.between(first, last)] == ["aside", "merged", "last"]
    assert repository.between(last, last) == ()
    with pytest.raises(BadInput, match="main is no ancestor of main~3; it comes after it: name the earlier one first"):
        repository.between(last, first)


def test_a_good_commit_beside_the_line_is_refused(tmp_path: Path) -> None:
    """Found: commits before the merge lack what made the good one quick; one of them was blamed, and confirmed."""
    project = CommittedProject.begin(tmp_path / "line")
    root = project.commit("root", {"speed.txt": "80"})
    project.git("checkout", "--quiet", "-b", "quicker")
    project.commit("quicker", {"speed.txt": "100"})
    project.git("checkout", "--quiet", "main")
    project.commit("innocent", {"a.py": ""})
    project.git("merge", "--quiet", "--no-ff", "--message", "merged", "quicker")
    project.commit("culprit", {"speed.txt": "80"})
    repository = Repository.around(project.top)
    with pytest.raises(BadInput, match="a merge brought it in; name a good one of that line, such as") as refused:
        repository.between(repository.commit("quicker"), repository.commit("main"))
    assert root[:10] in str(refused.value)
    rest = repository.between(repository.commit("main~1"), repository.commit("main"))
    assert [commit.subject for commit in rest] == ["culprit"], "the merge is of the line"


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(CannotRun, match="git is not installed"):
        Repository.around(tmp_path)
