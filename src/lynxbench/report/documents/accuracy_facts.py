"""What a server's answers are worth, in lines: the task, agreement with a reference, log-probabilities, own noise."""

from collections.abc import Mapping

from lynxbench.model.canonical import short
from lynxbench.model.result import Accuracy
from lynxbench.report import words
from lynxbench.report.doc import Fact, said
from lynxbench.report.words import NBSP

Values = Mapping[str, float | None]


def is_of_server(accuracy: Accuracy) -> bool:
    """Whether answers of a server were asked for, and not those of a process of ours."""
    noted = bool(accuracy.notes) and "relative-error" not in accuracy.metrics
    return noted or accuracy.against is not None or "self-agreement" in accuracy.metrics


def answer_facts(accuracy: Accuracy) -> list[Fact]:
    """One line each on what was measured, and what could not be."""
    metrics = accuracy.metrics
    facts: list[Fact] = []
    if metrics.get("task") is not None:
        failed = int(metrics.get("task-failed") or 0)
        asked = f"of {int(metrics.get('task-inputs') or 0)} labelled prompts"
        line = f"{_share(metrics, 'task')} right {asked}{f', {failed} without an answer left out' if failed else ''}"
        if metrics.get("task-change") is not None:
            line += f"; change {_signed(metrics, 'task-change')}"
        facts.append(("Task", said(line)))
    if metrics.get("token-agreement") is not None:
        line = (
            f"{_share(metrics, 'token-agreement')} of {int(metrics.get('greedy-prompts') or 0)} prompts agree whole; "
        )
        line += f"{_percent(metrics, 'top1')} of tokens with the same context; first "
        line += f"{words.digits(metrics.get('agreed-prefix'), 3)} tokens on average"
        if metrics.get("level-agreement") is not None:
            line += f"; {_percent(metrics, 'level-agreement')} where level tokens may change places"
        facts.append(("Agreement", said(line)))
    for name, title in (("logprob", "Log-probability"), ("text-logprob", "… of a fixed text")):
        if metrics.get(f"{name}-change") is not None:
            line = f"{_bounds(metrics, f'{name}-change')} nats a token; off by {_digits(metrics, f'{name}-error')}"
            noise = metrics.get(f"{name}-error-noise")
            line += "" if noise is None else f", of which a server's own noise is {words.digits(noise, 2)}"
            facts.append((title, said(line)))
    if metrics.get("perplexity") is not None:
        change = f" ({_signed(metrics, 'perplexity-change')})" if metrics.get("perplexity-change") is not None else ""
        facts.append(("Perplexity", said(f"{_digits(metrics, 'perplexity')}{change}")))
    if metrics.get("self-agreement") is not None:
        facts.append(("Own noise", said(f"agrees with itself in {_share(metrics, 'self-agreement')} of the prompts")))
    against = "nothing: it is the reference" if accuracy.is_reference else f"{accuracy.reference}"
    against += f", result {short(accuracy.against)}" if accuracy.against else ""
    facts.append(("Held against", said(against)))
    facts += [("Notice", *(said(note) for note in accuracy.notes))] if accuracy.notes else []
    facts.append(("Asked", said(accuracy.inputs)))
    return facts


def _percent(metrics: Values, name: str) -> str:
    value = metrics.get(name)
    return "unknown" if value is None else words.percent(value, decimals=1)


def _digits(metrics: Values, name: str) -> str:
    value = metrics.get(name)
    return "unknown" if value is None else words.digits(value, 3)


def _share(metrics: Values, name: str) -> str:
    ends = f"[{_percent(metrics, f'{name}-low')}, {_percent(metrics, f'{name}-high')}]"
    return f"{_percent(metrics, name)} {ends}".replace(" ", NBSP)


def _bounds(metrics: Values, name: str) -> str:
    ends = [metrics.get(f"{name}-{end}") for end in ("low", "high")]
    low, high = ("?" if end is None else f"{end:+.2g}" for end in ends)
    value = metrics.get(name)
    return ("unknown" if value is None else f"{value:+.2g}") + f" [{low}, {high}]"


def _signed(metrics: Values, name: str) -> str:
    ends = [metrics.get(part) for part in (name, f"{name}-low", f"{name}-high")]
    change, low, high = ("?" if end is None else words.percent(end, signed=True) for end in ends)
    return f"{change} [{low}, {high}]"
