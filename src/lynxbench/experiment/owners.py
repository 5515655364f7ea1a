"""What each layer's owner would have concluded alone, and why it would have been wrong."""

from __future__ import annotations

import math

from lynxbench.experiment.definition import Definition
from lynxbench.experiment.wording import percent_words
from lynxbench.model.experiment import OwnerJudgement, OwnerShown
from lynxbench.model.interval import Interval
from lynxbench.stats.decomposing import ERROR
from lynxbench.stats.factorial import ContrastEstimate


def judge_owner(
    definition: Definition,
    position: int,
    alone: ContrastEstimate,
    company: ContrastEstimate,
    shift: ContrastEstimate,
    delta: float,
    confidence: float,
) -> OwnerShown:
    """Hold a change's effect alone, everything else as it was, against its effect where the others are made."""
    factor = definition.factors[position]
    owner = definition.contract.owner(factor.layer)
    change = f"{factor.name} {factor.level_names[0]} → {factor.level_names[factor.target_index]}"
    judgement = _judge(alone, company, shift, delta, better_up=higher_is_better(definition))
    first, last = alone.interval(confidence), company.interval(confidence)
    sentence = _sentence(owner, change, first, last, judgement, definition.response)
    return OwnerShown(
        factor=factor.name,
        layer=factor.layer,
        owner=owner,
        change=change,
        alone=_ratio(first),
        in_company=_ratio(last),
        judgement=judgement,
        sentence=sentence,
    )


def higher_is_better(definition: Definition) -> bool:
    """Throughput is; every latency is not."""
    return definition.response == "throughput"


def _judge(
    alone: ContrastEstimate, company: ContrastEstimate, shift: ContrastEstimate, delta: float, *, better_up: bool
) -> OwnerJudgement:
    if alone.p < ERROR and company.p < ERROR and alone.value * company.value < 0 and abs(shift.value) > delta:
        return OwnerJudgement.WRONG_SIGN
    if shift.p_beyond(delta) < ERROR:
        gained, kept = (alone.value, company.value) if better_up else (-alone.value, -company.value)
        return OwnerJudgement.OVERSTATED if gained > kept else OwnerJudgement.UNDERSTATED
    if shift.p_within(delta) < ERROR:
        return OwnerJudgement.HOLDS
    return OwnerJudgement.UNRESOLVED


def _sentence(
    owner: str, change: str, alone: Interval, company: Interval, judgement: OwnerJudgement, response: str
) -> str:
    said = f"{owner}, changing {change} alone, would have concluded {percent_words(alone)} {response}"
    then = f"with the other changes made it is {percent_words(company)}"
    ends = {
        OwnerJudgement.HOLDS: "the conclusion holds in company",
        OwnerJudgement.WRONG_SIGN: "the conclusion has the wrong sign",
        OwnerJudgement.OVERSTATED: "the gain alone overstates what the change adds",
        OwnerJudgement.UNDERSTATED: "the gain alone understates what the change adds",
        OwnerJudgement.UNRESOLVED: "whether the conclusion holds in company is not settled",
    }
    return f"{said}; {then}: {ends[judgement]}"


def _ratio(logs: Interval) -> Interval:
    low, middle, high = (math.exp(x) if math.isfinite(x) else math.nan for x in (logs.low, logs.estimate, logs.high))
    return Interval(low, middle, high)
