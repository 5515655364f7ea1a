"""What a server answers beside its load: asked after the last measured client, kept as hashes, judged from the file.

Not under the load: the agreed load would be another one, and a server's numbers move with what shares its batch. The
same server, as it stands, is asked a few questions at a time; what its batching changes is seen by asking twice.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from lynxbench.engines.greedy_asking import (
    TOP_LETTERS,
    GreedyAnswer,
    Prompt,
    Questioner,
    ask_all,
    prefix_hashes,
)
from lynxbench.engines.openai import Endpoint
from lynxbench.engines.served import service_of
from lynxbench.errors import BadInput
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.run_folder import ANSWERS_FILE, RunFolder
from lynxbench.evidence.whole_files import write_text
from lynxbench.measure.served_answers import AnswerNotes, ServedAnswers, answers_of, judge_answers
from lynxbench.measure.task_scores import LARGEST_FAILED, letter_place
from lynxbench.measure.validity import Doubt
from lynxbench.model.accuracy_asked import GreedySet
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.executor import Executor
from lynxbench.model.fields import Sha256
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, Accuracy, Result
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.workload import ServedModel
from lynxbench.run.run_outcome import Progress
from lynxbench.run.task_scoring import ScoredTask, score_task
from lynxbench.run.worker import read_outputs, write_outputs
from lynxbench.workload.task_files import LabelledPrompt, read_task
from lynxbench.workload.texts import HELD_OUT, PROMPTS, bundled_sha256, read_held_out, read_prompts

TEXTS_FILE = "answers.jsonl"
"""Answers as text, where the contract keeps them."""
REFERENCE_FILE = "reference-answers.npz"
REFERENCE_NOTE = "reference.json"
PROMPT_WORDS = 48
PASSAGE_WORDS = 64
"""Long enough for a context, short enough that the held-out text gives a few dozen passages."""
APART = 37
"""Words between the beginnings of two prompts; a prime, as for the prompts of the load."""


class AnswersReference(Document):
    """Whose answers lie beside a run as the reference of its own."""

    result_id: Sha256
    contract_name: str
    precision: Precision


@dataclass(frozen=True, slots=True)
class ReferenceAnswers:
    """Another server's answers on their way into a run."""

    data: bytes
    note: AnswersReference

    def lay_into(self, run: RunFolder) -> None:
        """Beside the run before it is measured: what it is judged by is part of its evidence."""
        (run.path / REFERENCE_FILE).write_bytes(self.data)
        write_text(run.path / REFERENCE_NOTE, self.note.model_dump_json(indent=1))


# --- the reference ---------------------------------------------------------------------------------------------------


def read_reference(result: Result, folder: Path, contract: Contract) -> ReferenceAnswers:
    """The answers that a result kept, to hold a contract's run against; BadInput where there are none."""
    source = folder / ANSWERS_FILE
    if contract.accuracy is None or not isinstance(contract.engine, OpenAiEngine):
        raise BadInput(f"--reference: contract {contract.name} asks a server no answers; add accuracy to it")
    if not source.exists():
        raise BadInput(f"--reference: {result.run_id} kept no answers; its contract needs accuracy (greedy or task)")
    answers_of(read_outputs(source))
    note = AnswersReference(
        result_id=result.result_id,
        contract_name=result.contract.name,
        precision=result.contract.workload.precisions[0],
    )
    return ReferenceAnswers(source.read_bytes(), note)


# --- asking ----------------------------------------------------------------------------------------------------------


def ask_answers(run: RunFolder, progress: Progress) -> None:
    """Ask what the contract asks of the answers, once; a run that is resumed keeps what was answered."""
    contract = run.registration.contract
    if contract.accuracy is None or (run.path / ANSWERS_FILE).exists():
        return
    progress.note("asking labelled and greedy prompts, outside of the load")
    answers, texts = collect_answers(contract, run.registration.executor)
    if contract.accuracy.keep_text:
        write_text(run.path / TEXTS_FILE, "".join(f"{json.dumps({'answer': text})}\n" for text in texts))
    write_outputs(run.path / ANSWERS_FILE, answers.outputs())


def collect_answers(contract: Contract, executor: Executor) -> tuple[ServedAnswers, list[str]]:
    """The answers of a contract's server to everything that the contract asks, and their texts."""
    asked, engine, model = contract.accuracy, contract.engine, contract.workload.model
    assert asked is not None
    assert isinstance(engine, OpenAiEngine)
    assert isinstance(model, ServedModel)
    server = ServerAnswerer(Questioner(engine, service_of(contract, engine, model)))
    scored = ScoredTask(np.zeros(0, dtype=np.int8), "", ())
    if asked.task is not None:
        scored = score_task(asked.task, read_task(asked.task), server)
    greedy = asked.greedy
    kept, texts = server.greedy(greedy, contract.workload.seed) if greedy is not None else (_nothing(), [])
    notes = AnswerNotes(
        greedy=kept.notes.greedy,
        task=scored.how,
        text=kept.notes.text,
        random_weights=has_random_weights(executor),
        failed=kept.notes.failed,
        said=kept.notes.said,
    )
    answers = ServedAnswers(notes, kept.prefixes, kept.logprobs, kept.margins, kept.text_logprobs, scored.marks)
    return answers, [*scored.texts, *texts]


class ServerAnswerer:
    """A server that is asked labelled prompts and the greedy set."""

    def __init__(self, questioner: Questioner) -> None:
        self._ask = questioner

    def texts(self, prompts: list[LabelledPrompt], tokens: int) -> list[str | None]:
        """Greedy answers; a plain completion ends at its first empty line, where such models begin something new."""
        answers = ask_all(lambda prompt: self._ask.answer(self._said(prompt), tokens), prompts)
        return [None if answer.failed else self._cut(answer.text) for answer in answers]

    def choose(self, prompts: list[LabelledPrompt], tokens: int) -> tuple[str, list[int | None]]:
        """By the log-probability of each choice after the prompt where the server gives it, else by its letter."""
        plain = self._ask.service.endpoint is Endpoint.COMPLETIONS and not any(prompt.messages for prompt in prompts)
        if plain and self._choice_logprob(prompts[0], prompts[0].choices[0]) is not None:
            return "log-probability of each choice after the prompt", ask_all(self._likeliest, prompts)
        answers = ask_all(
            lambda prompt: self._ask.answer(self._said(prompt.lettered()), tokens, top=TOP_LETTERS), prompts
        )
        if any(answer.tokens and answer.tokens[0].top for answer in answers):
            how = "the likeliest letter as the first token, else the letter that begins the answer"
        else:
            how = "the letter that begins the answer"
        return how, [
            None if answer.failed else _letter(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)
        ]

    def greedy(self, asked: GreedySet, seed: int) -> tuple[ServedAnswers, list[str]]:
        """The fixed set, asked twice, and a fixed text's own log-probabilities where the server gives them."""
        prompts = greedy_prompts(asked, seed)
        said: list[str] = []
        passes = [
            ask_all(lambda prompt: self._ask.answer(prompt, asked.tokens, forced=True), prompts, backwards=backwards)
            for backwards in (False, True)
        ]
        by_token = all(answer.tokens for answers in passes for answer in answers if not answer.failed)
        if not by_token:
            said.append("the server gives no log-probabilities of its answers: agreement is by words of the text")
        shape = len(prompts), asked.tokens
        prefixes, logprobs = np.zeros((2, *shape), dtype=np.uint64), np.full((2, *shape), np.nan)
        margins = np.full(shape, np.nan)
        for number, answers in enumerate(passes):
            for row, answer in enumerate(answers):
                tokens = answer.tokens[: asked.tokens] if by_token else ()
                pieces = [token.identity for token in tokens] if by_token else answer.text.split()
                prefixes[number, row] = prefix_hashes(pieces, asked.tokens)
                logprobs[number, row, : len(tokens)] = [token.logprob for token in tokens]
                if number == 0:
                    margins[row, : len(tokens)] = [token.margin for token in tokens]
        failed = sum(any(answers[row].failed for answers in passes) for row in range(len(prompts)))
        words = next((answer.failed for answers in passes for answer in answers if answer.failed), "")
        if words:
            said.append(f"a prompt of the greedy set failed: {words[:200]}")
        text, named = self._text(said)
        how = f"{len(prompts)} prompts of {PROMPT_WORDS} words of {PROMPTS} sha256:{bundled_sha256(PROMPTS)[:12]}"
        unit = "tokens" if by_token else "words"
        greedy = f"{how}, seed {seed}, {asked.tokens} greedy {unit} each at {self._ask.service.endpoint}"
        notes = AnswerNotes(greedy=greedy, text=named, failed=failed, said=tuple(said))
        kept = ServedAnswers(notes, prefixes, logprobs, margins, text, np.zeros(0, dtype=np.int8))
        return kept, [answer.text for answer in passes[0]]

    def _text(self, said: list[str]) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], str]:
        """Log-probabilities [asking, passage, token] of the held-out text; nothing where none of prompts are given."""
        words = read_held_out().split()
        passages = [" ".join(words[at : at + PASSAGE_WORDS]) for at in range(0, len(words), PASSAGE_WORDS)]
        whole = [passage for passage in passages if len(passage.split()) == PASSAGE_WORDS]
        if self._ask.text_logprobs(whole[0]) is None:
            said.append("the server gives no log-probabilities of prompts: no perplexity")
            return np.zeros((2, 0, 0)), ""
        passes = [ask_all(self._ask.text_logprobs, whole, backwards=backwards) for backwards in (False, True)]
        longest = max(len(tokens or ()) for tokens in passes[0])
        values = np.full((2, len(whole), longest), np.nan)
        names = hashlib.sha256()
        for number, answers in enumerate(passes):
            for row, tokens in enumerate(answers):
                for place, (name, logprob) in enumerate((tokens or ())[:longest]):
                    values[number, row, place] = logprob
                    names.update(name.encode() if number == 0 else b"")
        how = f"{len(whole)} passages of {PASSAGE_WORDS} words of {HELD_OUT} sha256:{bundled_sha256(HELD_OUT)[:12]}"
        return values, f"{how}, tokens sha256:{names.hexdigest()[:12]}"

    def _said(self, prompt: LabelledPrompt) -> Prompt:
        return list(prompt.messages) if prompt.messages else prompt.prompt

    def _cut(self, text: str) -> str:
        return text.strip().partition("\n\n")[0] if self._ask.service.endpoint is Endpoint.COMPLETIONS else text

    def _likeliest(self, prompt: LabelledPrompt) -> int | None:
        numbers = [self._choice_logprob(prompt, choice) for choice in prompt.choices]
        known = [number for number in numbers if number is not None]
        return None if len(known) < len(numbers) else int(np.argmax(known))

    def _choice_logprob(self, prompt: LabelledPrompt, choice: str) -> float | None:
        """The sum over the tokens that end the text and cover the choice."""
        gap = "" if prompt.prompt[-1:].isspace() else " "
        tokens = self._ask.text_logprobs(prompt.prompt + gap + choice)
        if tokens is None:
            return None
        total, covered = 0.0, 0
        for name, logprob in reversed(tokens):
            if covered >= len(choice):
                break
            total, covered = total + logprob, covered + max(1, len(name))
        return total


def greedy_prompts(asked: GreedySet, seed: int) -> list[str]:
    """Windows of the bundled prose, the same for every server that is asked with this seed."""
    words = read_prompts().split()
    start = int(np.random.default_rng(seed).integers(len(words)))
    return [
        " ".join(words[(start + number * APART + place) % len(words)] for place in range(PROMPT_WORDS))
        for number in range(asked.prompts)
    ]


def has_random_weights(executor: Executor) -> bool:
    """Whether the server was told to fill its weights with random numbers."""
    words: list[str] = []
    for name in ("server_command", "server_launch"):
        value = executor.get(Layer.SERVING, name)
        words += [str(word) for word in value] if isinstance(value, list) else []
    return any(
        word == "--load-format=dummy" or (word == "--load-format" and following == "dummy")
        for word, following in zip(words, [*words[1:], ""], strict=False)
    )


def _letter(prompt: LabelledPrompt, answer: GreedyAnswer) -> int:
    letters = ascii_uppercase[: len(prompt.choices)]
    first = answer.tokens[0].top if answer.tokens else {}
    known: dict[str, float] = {}
    for token, logprob in first.items():
        letter = token.strip(" \t\n.()*▁Ġ").upper()
        if len(letter) == 1 and letter in letters:
            known[letter] = max(logprob, known.get(letter, -np.inf))
    if known:
        return letters.index(max(known, key=lambda letter: known[letter]))
    return letter_place(answer.text, prompt.choices)


def _nothing() -> ServedAnswers:
    empty = np.zeros((2, 0, 0))
    return ServedAnswers(
        AnswerNotes(), np.zeros((2, 0, 0), dtype=np.uint64), empty, empty[0], empty, np.zeros(0, dtype=np.int8)
    )


# --- judging ---------------------------------------------------------------------------------------------------------


def conclude_answers(run: RunFolder, rules: int = RULES) -> tuple[Accuracy | None, list[Doubt]]:
    """What a run's kept answers come to by an edition of the rules, and reasons to doubt it; needs only its folder."""
    file, contract = run.path / ANSWERS_FILE, run.registration.contract
    if contract.accuracy is None or not file.exists():
        return None, []
    candidate = answers_of(read_outputs(file))
    reference = note = None
    if (run.path / REFERENCE_FILE).exists():
        reference = answers_of(read_outputs(run.path / REFERENCE_FILE))
        note = read_document(run.path / REFERENCE_NOTE, AnswersReference, "nothing says what the reference is")
    precision = contract.workload.precisions[0]
    accuracy = judge_answers(
        candidate,
        reference,
        contract.policy.accuracy,
        precision,
        precision if note is None else note.precision,
        None if note is None else note.result_id,
        rules,
    )
    return accuracy, _doubts(candidate)


def _doubts(answers: ServedAnswers) -> list[Doubt]:
    doubts = []
    for what, failed, asked in (
        ("labelled", int((answers.marks < 0).sum()), len(answers.marks)),
        ("greedy", answers.notes.failed, answers.prefixes.shape[1]),
    ):
        if asked and failed > LARGEST_FAILED * asked:
            doubts.append(Doubt(f"accuracy: {failed} of {asked} {what} prompts had no answer"))
    return doubts


def compare_kept(a: Path, b: Path, results: Sequence[Result]) -> Accuracy | None:
    """B's kept answers against A's, where both folders hold some to the same prompts; else nothing."""
    files = [folder / ANSWERS_FILE for folder in (a, b)]
    if not all(file.exists() for file in files):
        return None
    reference, candidate = (answers_of(read_outputs(file)) for file in files)
    if (reference.notes.greedy, reference.notes.task) != (candidate.notes.greedy, candidate.notes.task):
        return None
    precisions = [result.contract.workload.precisions[0] for result in results]
    policy = results[1].contract.policy.accuracy
    return judge_answers(candidate, reference, policy, precisions[1], precisions[0], results[0].result_id)
