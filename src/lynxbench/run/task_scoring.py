"""Labelled prompts to marks: each is asked of whoever answers (a server, a model in this process) and scored."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lynxbench.engines.callable import resolve
from lynxbench.errors import CannotRun, OwnCodeFailed
from lynxbench.load.engine_session import Session
from lynxbench.measure.task_scores import FAILED, RIGHT, WRONG, Marks01, is_exact, is_number
from lynxbench.model.accuracy_asked import LabelledTask, ScorerName
from lynxbench.model.contract import Contract
from lynxbench.model.samples import Outputs
from lynxbench.workload.task_files import LabelledPrompt, TaskFile, read_task

Mark = Callable[[LabelledPrompt, str], bool]


@dataclass(frozen=True, slots=True)
class ScoredTask:
    """Every prompt marked, and how it was asked and scored: two are compared only where that is the same."""

    marks: Marks01
    how: str
    texts: tuple[str, ...]


class Answerer(Protocol):
    """Whoever is asked labelled prompts."""

    def texts(self, prompts: list[LabelledPrompt], tokens: int) -> list[str | None]:
        """The greedy answer to each; None where none came."""

    def choose(self, prompts: list[LabelledPrompt], tokens: int) -> tuple[str, list[int | None]]:
        """How choices are told apart here, and the chosen place for each (-1: none of them); None without an answer."""


def check_asked(contract: Contract) -> None:
    """Read what a contract asks of the answers: a wrong task file or scorer is said before anything is measured."""
    if contract.accuracy is not None and contract.accuracy.task is not None:
        read_task(contract.accuracy.task)
        marker(contract.accuracy.task)


def score_task(task: LabelledTask, file: TaskFile, answerer: Answerer) -> ScoredTask:
    """Ask every prompt and mark its answer."""
    prompts = list(file.prompts)
    name = f"{len(prompts)} labelled prompts sha256:{file.sha256}"
    if task.scorer == ScorerName.CHOICE:
        how, places = answerer.choose(prompts, task.answer_tokens)
        marks = [FAILED if place is None else _mark(place == p.right) for p, place in zip(prompts, places, strict=True)]
        texts = ["" if place is None else str(place) for place in places]
        return ScoredTask(np.array(marks, dtype=np.int8), f"{name}, choice by {how}", tuple(texts))
    right = marker(task)
    answers = answerer.texts(prompts, task.answer_tokens)
    marks = [FAILED if t is None else _mark(right(p, t)) for p, t in zip(prompts, answers, strict=True)]
    how = f"{name}, scorer {task.scorer}{_source(task.scorer)}, at most {task.answer_tokens} tokens"
    how += f", tolerance {task.tolerance:g}" if task.scorer == ScorerName.NUMERIC else ""
    return ScoredTask(np.array(marks, dtype=np.int8), how, tuple(answer or "" for answer in answers))


def with_task(contract: Contract, session: Session, outputs: Outputs) -> Outputs:
    """A session's outputs with the marks of the contract's labelled prompts, where it has some."""
    if contract.accuracy is None or contract.accuracy.task is None:
        return outputs
    task, answerer = contract.accuracy.task, getattr(session, "answerer", None)
    if answerer is None:
        raise CannotRun(f"accuracy.task: engine {contract.engine.name} answers no prompts")
    scored = score_task(task, read_task(task), answerer())
    return Outputs(outputs.kind, {**outputs.arrays, "marks": scored.marks}, f"{outputs.inputs}; {scored.how}")


def marker(task: LabelledTask) -> Mark:
    """What marks an answer right: of the house, or the user's own function `f(answer, row) -> bool`."""
    match task.scorer:
        case ScorerName.EXACT | ScorerName.CHOICE:
            return lambda prompt, text: is_exact(text, prompt.answers)
        case ScorerName.NUMERIC:
            return lambda prompt, text: is_number(text, prompt.answers, task.tolerance)
    own: Callable[..., Any] = resolve(task.scorer)

    def mark(prompt: LabelledPrompt, text: str) -> bool:
        try:
            said = own(text, dict(prompt.row))
        except Exception as error:  # the user's function may raise anything
            raise OwnCodeFailed(f"{task.scorer}: {type(error).__name__}: {error}") from None
        if not isinstance(said, bool | np.bool_):
            raise OwnCodeFailed(f"{task.scorer} returned {type(said).__name__}; a scorer says True (right) or False")
        return bool(said)

    return mark


def _source(scorer: str) -> str:
    """Of an own scorer the hash of its code, so that another one under the same name is another scorer."""
    if scorer in set(ScorerName):
        return ""
    code = getattr(resolve(scorer), "__code__", None)
    return "" if code is None else f" {hashlib.sha256(code.co_code + repr(code.co_consts).encode()).hexdigest()[:12]}"


def _mark(right: bool) -> int:
    return RIGHT if right else WRONG
