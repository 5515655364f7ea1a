"""From measured cells to what they say together: effects, shares, orders, owners, and the word."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lynxbench.experiment.definition import Definition
from lynxbench.experiment.wording import finding_words, percent_words, term_words, word_sentence
from lynxbench.model.experiment import (
    EffectShown,
    ExperimentAnalysis,
    OwnerJudgement,
    OwnerShown,
    ShapleyShown,
    ShareShown,
    SimpleShown,
)
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.stats.contrasts import (
    MOST_ORDERED,
    Contrast,
    FactorStep,
    additions,
    alone,
    effect_contrasts,
    gap,
    in_company,
    joint,
    needed,
    shapley,
    simple_effects,
)
from lynxbench.stats.decomposing import ERROR, decompose
from lynxbench.stats.designs import Cell, Design
from lynxbench.stats.factorial import ContrastEstimate, FactorialFit, Observation, holm, variation
from lynxbench.stats.intervals import mean_interval


def observe(values: Mapping[tuple[Cell, int], float]) -> tuple[Observation, ...]:
    """Responses by cell and block as observations on the log scale; what is not positive is no response."""
    return tuple(
        Observation(cell, block, math.log(value))
        for (cell, block), value in sorted(values.items())
        if math.isfinite(value) and value > 0
    )


def analyse(
    definition: Definition, values: Mapping[tuple[Cell, int], float], block: str = "block of time"
) -> ExperimentAnalysis | str:
    """The whole analysis, or why there is none. `block` says what a block holds together."""
    design = definition.plan()
    observed = observe(values)
    if len({observation.cell for observation in observed}) < 2:
        return "fewer than two cells were measured"
    fit = FactorialFit(observed)
    delta = math.log1p(definition.smallest_effect)
    confidence = definition.contract.protocol.confidence
    step = step_of(definition, design)
    decomposed = decompose(design, fit, step, delta)
    names = [factor.name for factor in definition.factors]
    noise = fit.noise
    described = variation(design, observed)
    base = ExperimentAnalysis(
        word=decomposed.word,
        sentence=word_sentence(definition, decomposed.word, fit, step),
        reasons=tuple(finding_words(definition, finding) for finding in decomposed.findings),
        restarts_needed=decomposed.restarts_needed,
        delta=definition.smallest_effect,
        confidence=confidence,
        noise=None if math.isnan(noise) else math.expm1(noise),
        effects=_effects(definition, design, fit),
        variation=()
        if described is None
        else (
            *(ShareShown(term=term_words(names, word), share=share) for word, share in described.terms.items()),
            ShareShown(term=block, share=described.blocks),
            ShareShown(term="between restarts", share=described.restarts),
        ),
        variation_missing="" if described is not None else "a cell or a visit is missing: shares would overlap",
        simple=_simple(definition, design, fit),
    )
    return base.model_copy(update=_stepwise(definition, fit, step, base.effects))


def step_of(definition: Definition, design: Design) -> FactorStep:
    """From every factor's first level to its target."""
    return FactorStep((0,) * len(design.levels), tuple(factor.target_index for factor in definition.factors))


def ratio_of(logs: Interval) -> Interval:
    """From a difference of logarithms to a ratio."""
    low, middle, high = (math.exp(x) if math.isfinite(x) else math.nan for x in (logs.low, logs.estimate, logs.high))
    return Interval(low, middle, high)


def _ratio(fit: FactorialFit, contrast: Contrast, confidence: float) -> Interval:
    return ratio_of(fit.estimate(contrast).interval(confidence))


def _effects(definition: Definition, design: Design, fit: FactorialFit) -> tuple[EffectShown, ...]:
    confidence = definition.contract.protocol.confidence
    effects = effect_contrasts(design, fit.cells)
    estimates = [fit.estimate(effect.contrast) for effect in effects]
    adjusted = holm([estimate.p for estimate in estimates])
    names = [factor.name for factor in definition.factors]
    shown = []
    for effect, estimate, p_holm in zip(effects, estimates, adjusted, strict=True):
        members, contexts = sorted(effect.word), effect.contrast
        shown.append(
            EffectShown(
                name=term_words(names, effect.word),
                factors=tuple(names[member] for member in members),
                levels=tuple(
                    definition.factors[member].level_names[level]
                    for member, level in zip(members, effect.levels, strict=True)
                ),
                ratio=ratio_of(estimate.interval(confidence)) if contexts.estimable else UNKNOWN_INTERVAL,
                p=estimate.p,
                p_holm=p_holm,
                sure=p_holm < ERROR,
                contexts=""
                if contexts.contexts == contexts.contexts_possible
                else f"over {contexts.contexts} of {contexts.contexts_possible} settings of the others",
                aliases=tuple(term_words(names, alias) for alias in effect.aliases),
            )
        )
    return tuple(shown)


def _simple(definition: Definition, design: Design, fit: FactorialFit) -> tuple[SimpleShown, ...]:
    confidence, shown = definition.contract.protocol.confidence, []
    for position, factor in enumerate(definition.factors):
        for level in range(1, len(factor.levels)):
            for cell, contrast in simple_effects(design, position, level, fit.cells).items():
                others = [
                    f"{other.name} {other.level_names[cell[at]]}"
                    for at, other in enumerate(definition.factors)
                    if at != position
                ]
                shown.append(
                    SimpleShown(
                        factor=factor.name,
                        level=factor.level_names[level],
                        context=", ".join(others),
                        ratio=_ratio(fit, contrast, confidence),
                    )
                )
    return tuple(shown)


def _stepwise(
    definition: Definition, fit: FactorialFit, step: FactorStep, effects: Sequence[EffectShown]
) -> dict[str, object]:
    """Joint change, Shapley values and owners' views, or why a cell that they need is not there."""
    if len(step.factors) < 2:
        return {"step_missing": "one factor alone has no company"}
    if len(step.factors) > MOST_ORDERED:
        return {"step_missing": f"more than {MOST_ORDERED} factors: their orders are not looked at"}
    here, confidence = set(fit.cells), definition.contract.protocol.confidence
    single = [alone(step, factor) for factor in step.factors]
    partial: dict[str, object] = {}
    if needed([joint(step), *single]) <= here:
        partial = {
            "joint": _ratio(fit, joint(step), confidence),
            "sum_of_single": _ratio(fit, _sum(single), confidence),
            "gap": _ratio(fit, gap(step), confidence),
        }
    last = [in_company(step, factor) for factor in step.factors]
    if needed([*single, *last]) <= here:
        owners = [_owner(definition, fit, step, factor) for factor in step.factors]
        partial["owners"] = tuple(_explained(owner, effects) for owner in owners)
    corners = needed([shapley(step, factor) for factor in step.factors])
    if corners <= here:
        partial["shapley"] = tuple(_shapley(definition, fit, step, factor) for factor in step.factors)
    missing = sorted(corners - here)
    if missing:
        partial["step_missing"] = (
            f"{len(missing)} of the {len(corners)} cells between baseline and target are not measured"
        )
    return partial


def _sum(contrasts: Sequence[Contrast]) -> Contrast:
    weights: dict[Cell, float] = {}
    for contrast in contrasts:
        for cell, weight in contrast.weights.items():
            weights[cell] = weights.get(cell, 0.0) + weight
    return Contrast(weights)


def _negated(contrast: Contrast) -> Contrast:
    return Contrast({cell: -weight for cell, weight in contrast.weights.items()})


def _owner(definition: Definition, fit: FactorialFit, step: FactorStep, position: int) -> OwnerShown:
    """What an owner would have concluded alone: a change's effect with all else as it was, against that in company."""
    delta, confidence = math.log1p(definition.smallest_effect), definition.contract.protocol.confidence
    before, after = fit.estimate(alone(step, position)), fit.estimate(in_company(step, position))
    shift = fit.estimate(_sum([in_company(step, position), _negated(alone(step, position))]))
    factor = definition.factors[position]
    owner = definition.contract.owner(factor.layer)
    change = f"{factor.name} {factor.level_names[0]} → {factor.level_names[factor.target_index]}"
    judgement = _judge(before, after, shift, delta, better_up=higher_is_better(definition))
    first, last = before.interval(confidence), after.interval(confidence)
    sentence = _sentence(owner, change, first, last, judgement, definition.response)
    return OwnerShown(
        factor=factor.name,
        layer=factor.layer,
        owner=owner,
        change=change,
        alone=ratio_of(first),
        in_company=ratio_of(last),
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
        larger_alone = alone.value > company.value if better_up else alone.value < company.value
        return OwnerJudgement.OVERSTATED if larger_alone else OwnerJudgement.UNDERSTATED
    if shift.p_within(delta) < ERROR:
        return OwnerJudgement.HOLDS
    return OwnerJudgement.UNRESOLVED


def _sentence(
    owner: str, change: str, alone: Interval, company: Interval, judgement: OwnerJudgement, response: str
) -> str:
    concluded = f"{owner}, changing {change} alone, would have concluded {percent_words(alone)} {response}"
    then = f"with the other changes made it is {percent_words(company)}"
    ends = {
        OwnerJudgement.HOLDS: "the conclusion holds in company",
        OwnerJudgement.WRONG_SIGN: "the conclusion has the wrong sign",
        OwnerJudgement.OVERSTATED: "the gain alone overstates what the change adds",
        OwnerJudgement.UNDERSTATED: "the gain alone understates what the change adds",
        OwnerJudgement.UNRESOLVED: "whether the conclusion holds in company is not settled",
    }
    return f"{concluded}; {then}: {ends[judgement]}"


def _explained(owner: OwnerShown, effects: Sequence[EffectShown]) -> OwnerShown:
    """Why an owner's conclusion does not hold: the largest sure interaction that the change takes part in."""
    if owner.judgement in (OwnerJudgement.HOLDS, OwnerJudgement.UNRESOLVED):
        return owner
    meets = [effect for effect in effects if effect.sure and owner.factor in effect.factors and len(effect.factors) > 1]
    if not meets:
        return owner
    largest = max(meets, key=lambda effect: abs(math.log(effect.ratio.estimate)))
    beyond = f"{(largest.ratio.estimate - 1) * 100:+.1f} %"
    why = f"{largest.name} interact ({beyond} over the product of their single effects)"
    return owner.model_copy(update={"sentence": f"{owner.sentence}, because {why}"})


def _shapley(definition: Definition, fit: FactorialFit, step: FactorStep, position: int) -> ShapleyShown:
    names = [factor.name for factor in definition.factors]
    factor = definition.factors[position]
    adds = {before: fit.estimate(contrast).value for before, contrast in additions(step, position)}
    least, most = min(adds, key=lambda key: adds[key]), max(adds, key=lambda key: adds[key])
    return ShapleyShown(
        factor=factor.name,
        layer=factor.layer,
        owner=definition.contract.owner(factor.layer),
        ratio=_ratio(fit, shapley(step, position), definition.contract.protocol.confidence),
        least=math.exp(adds[least]),
        least_after=tuple(names[earlier] for earlier in least),
        most=math.exp(adds[most]),
        most_after=tuple(names[earlier] for earlier in most),
    )


def cell_intervals(
    values: Mapping[tuple[Cell, int], float], confidence: float, *, within_blocks: bool = False
) -> dict[Cell, Interval]:
    """The response of each cell with its interval, in its own unit.

    A cell's level is no contrast: the next experiment has other blocks. Its processes lie in as many blocks, so that
    their own spread holds that of the blocks. `within_blocks` leaves it out, as analyses did before.
    """
    observed = observe(values)
    if within_blocks and observed:
        fit = FactorialFit(observed)
        return {cell: ratio_of(fit.estimate(Contrast({cell: 1.0})).interval(confidence)) for cell in fit.cells}
    logs: dict[Cell, list[float]] = {}
    for observation in observed:
        logs.setdefault(observation.cell, []).append(observation.value)
    # A cell with one process has no spread of its own and takes the mean one of the others.
    repeated = [np.var(own, ddof=1) for own in logs.values() if len(own) > 1]
    borrowed = float(np.mean(repeated)) if repeated else math.nan
    blocks = len({observation.block for observation in observed})
    intervals = {}
    for cell, own in logs.items():
        once = ContrastEstimate(own[0], math.sqrt(borrowed), max(blocks - 1, 1))
        intervals[cell] = ratio_of(mean_interval(own, confidence) if len(own) > 1 else once.interval(confidence))
    return intervals
