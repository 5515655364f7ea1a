"""What production asks beyond lengths and arrivals, in lines of the load section."""

from lynxbench.model.load_figures import CacheRecord, LoadFigures
from lynxbench.report import words
from lynxbench.report.doc import Fact
from lynxbench.report.words import NBSP, clean


def asked_facts(load: LoadFigures) -> list[Fact]:
    """A line for each thing that was asked; none for a plain load."""
    facts: list[Fact] = [
        (
            source.what.capitalize(),
            f"{clean(source.file)}, {words.count(source.rows, 'row', 'rows')}, {words.number(source.size_bytes, 0)} "
            f"bytes, SHA-256 {source.sha256[:12]}…; its text is in no file of this run",
        )
        for source in load.sources
    ]
    if (sessions := load.sessions) is not None:
        text = f"{words.number(sessions.whole, 0)} whole of {words.number(sessions.offered, 0)} begun while counting"
        text += f", {words.number(sessions.calls, 0)} calls; p50 / p99 {_pair(sessions.duration_ms)} from start to end"
        facts.append(("Session times", f"{text}, {_pair(sessions.waiting_ms)} of it with a call open"))
    for model in load.models:
        answered = f"{words.number(model.ok, 0)} of {words.number(model.offered, 0)} ok"
        rate = "" if model.output_tokens_per_s is None else f", {words.digits(model.output_tokens_per_s)} tokens/s"
        times = f"first token p50 / p99 {_pair(model.first_token_ms)}, latency {_pair(model.latency_ms)}"
        facts.append(
            (f"Model {clean(model.name)}", f"{words.percent(model.share)} of requests: {answered}{rate}, {times}")
        )
    if (answers := load.answers) is not None:
        problems = "".join(f"; {clean(problem)} {words.number(many, 0)}" for problem, many in answers.problems.items())
        valid = f"{words.number(answers.valid, 0)} of {words.number(answers.checked, 0)} answers are of the form"
        facts.append(("Answers", f"{valid} {clean(answers.form)}{problems}"))
    return facts


def expected_text(cache: CacheRecord) -> str:
    """What the requests share, and how far the server's count is from it."""
    assert cache.expected is not None
    text = f"the requests share {words.percent(cache.expected.share)} by blocks of {cache.expected.block} tokens"
    if cache.counted_share is None:
        return f"{text}; the server counted none"
    points = 100 * (cache.counted_share - cache.expected.share)
    return f"{text}; counted {words.percent(cache.counted_share)}, {points:+.1f}{NBSP}points"


def _pair(pair: tuple[float | None, float | None]) -> str:
    return f"{words.digits(pair[0])} / {words.digits(pair[1])}{NBSP}ms"
