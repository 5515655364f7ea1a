"""What the clients' records say of the work that production sends: by model, by session, against the expected cache."""

from collections.abc import Mapping, Sequence

from lynxbench.load.load_record import LoadRecord, requests_of
from lynxbench.measure.asked_figures import NumberedRequests, figures_by_model, session_figures
from lynxbench.measure.energy import counted_span_ns
from lynxbench.model.contract import Contract
from lynxbench.model.load_figures import AlikeAnswers, AnswerFigures, ExpectedCache, LoadFigures
from lynxbench.model.samples import CountedProcess
from lynxbench.run.client_job import ClientFacts
from lynxbench.workload.model_mix import assigned_models


def with_asked_work(
    load: LoadFigures,
    contract: Contract,
    facts: Sequence[ClientFacts],
    records: Mapping[int, LoadRecord],
    processes: Sequence[CountedProcess],
) -> LoadFigures:
    """The load's figures with what a contract asks beyond lengths and arrivals; unchanged where it asks no more."""
    workload = contract.workload
    runs = []
    for process in processes:
        record, span = records[process.samples.process], counted_span_ns(process)
        requests = requests_of(record)
        whole = (requests.start_ns, requests.load_end_ns)
        runs.append(NumberedRequests(requests, record.number, record.turn, span if span != (0, 0) else whole))
    first = facts[0]
    return load.model_copy(
        update={
            "sources": first.sources,
            "models": figures_by_model(
                runs, workload.models, assigned_models(workload.models, first.size, workload.seed)
            ),
            "sessions": session_figures(runs, first.session_calls),
            "answers": _all_answers([fact.answers for fact in facts if fact.answers is not None]),
        }
    )


def changed_sources(facts: Sequence[ClientFacts]) -> list[str]:
    """Files that were not the same for every client of a run: then there is no one workload."""
    return [
        f"{one.file} changed while it was measured: its SHA-256 was {one.sha256[:12]}… and then {other.sha256[:12]}…"
        for fact in facts[1:]
        for one, other in zip(facts[0].sources, fact.sources, strict=False)
        if one.sha256 != other.sha256
    ]


def mean_share(facts: Sequence[ClientFacts], name: str) -> float | None:
    """A share of the answers over all runs, each as long as the others; None where no client looked."""
    known = [share for share in (getattr(fact, name) for fact in facts) if share is not None]
    return sum(known) / len(known) if known else None


def least_alike(facts: Sequence[ClientFacts]) -> AlikeAnswers | None:
    """Of the run whose answers were the least alike: what does not depend on prompts does so in none."""
    return min((fact.alike for fact in facts if fact.alike is not None), key=lambda one: one.share, default=None)


def mean_expected(facts: Sequence[ClientFacts]) -> ExpectedCache | None:
    """The expected share over all runs; each begins with a cache that knows nothing of it."""
    known = [fact.expected for fact in facts if fact.expected is not None]
    if not known:
        return None
    total = sum(one.input_tokens for one in known)
    mean = {
        name: sum(getattr(one, name) * one.input_tokens for one in known) / total
        for name in ("share", "in_flight_share")
    }
    distinct = sum(one.distinct_tokens for one in known)
    return known[0].model_copy(update={**mean, "distinct_tokens": distinct, "input_tokens": total})


def _all_answers(parts: Sequence[AnswerFigures]) -> AnswerFigures | None:
    if not parts:
        return None
    problems: dict[str, int] = {}
    for part in parts:
        for problem, count in part.problems.items():
            problems[problem] = problems.get(problem, 0) + count
    return AnswerFigures(
        form=parts[0].form,
        checked=sum(part.checked for part in parts),
        valid=sum(part.valid for part in parts),
        problems=dict(sorted(problems.items())),
    )
