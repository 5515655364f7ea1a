"""Terms, findings and the word in sentences that name factors, levels and owners."""

import math
from collections.abc import Collection, Sequence

from lynxbench.experiment.definition import Definition
from lynxbench.model.experiment import Decomposability
from lynxbench.model.interval import Interval
from lynxbench.stats.contrasts import FactorStep, joint, needed
from lynxbench.stats.decomposing import DecompositionReason, Ground
from lynxbench.stats.designs import Cell, Design, alias_classes
from lynxbench.stats.factorial import FactorialFit


def term_words(names: Sequence[str], word: Collection[int]) -> str:
    """`threads × graph`."""
    return " × ".join(names[position] for position in sorted(word))


def percent_words(logs: Interval) -> str:
    """`+12.0 % [+10.1, +14.0]` of a ratio given in logarithms."""
    middle = f"{math.expm1(logs.estimate) * 100:+.1f} %"
    if not logs.known:
        return f"{middle} [no interval]"
    return f"{middle} [{math.expm1(logs.low) * 100:+.1f}, {math.expm1(logs.high) * 100:+.1f}]"


def setting_words(definition: Definition, cell: Cell, without: int | None = None) -> str:
    """`threads 2, batch 8`."""
    pairs = zip(definition.factors, cell, strict=True)
    return ", ".join(f"{f.name} {f.level_names[at]}" for i, (f, at) in enumerate(pairs) if i != without)


def finding_words(definition: Definition, finding: DecompositionReason) -> str:
    """One reason, in a sentence."""
    names = [factor.name for factor in definition.factors]
    bound = f"±{definition.smallest_effect:.1%}"
    shown = "unknown"
    if finding.estimate is not None:
        shown = percent_words(finding.estimate.interval(definition.contract.protocol.confidence))
    if finding.ground is Ground.INTERACTION and finding.effect is not None:
        term = term_words(names, finding.effect.word)
        also = "".join(f" or {term_words(names, alias)}" for alias in finding.effect.aliases)
        return f"{term}{also} interact: together {shown} over the product of their single effects, beyond {bound}"
    if finding.ground is Ground.GAP:
        return f"the single changes miss the joint one: it is {shown} over their product, beyond {bound}"
    if finding.ground is Ground.SIGN and finding.factor is not None and finding.contexts is not None:
        gains, loses = (setting_words(definition, cell, finding.factor) for cell in finding.contexts)
        return f"{names[finding.factor]} changes sign: it raises the response at {gains} and lowers it at {loses}"
    if finding.ground is Ground.MISSING and finding.effect is not None:
        seen = finding.effect.contrast
        term = term_words(names, finding.effect.word)
        return f"{term} is seen in {seen.contexts} of {seen.contexts_possible} settings: cells are missing"
    if finding.ground is Ground.ALIASED:
        return "the fraction confounds interactions of two factors with others: a full design would tell them apart"
    if finding.ground is Ground.ALONE:
        return "one factor alone cannot interact"
    what = (
        "what single changes miss of the joint one"
        if finding.effect is None
        else term_words(names, finding.effect.word)
    )
    return f"{what}: {shown} is neither inside {bound} nor surely beyond it"


def word_sentence(definition: Definition, word: Decomposability, fit: FactorialFit, step: FactorStep) -> str:
    """The word in a sentence about this experiment."""
    names = ", ".join(factor.name for factor in definition.factors)
    if word is Decomposability.DECOMPOSABLE:
        return (
            f"the effects of {names} multiply: what each does alone is what it does in company, within "
            f"±{definition.smallest_effect:.1%}"
        )
    if word is Decomposability.NOT_DECOMPOSABLE:
        how = ""
        if needed([joint(step)]) <= set(fit.cells) and len(step.factors) > 1:
            total = math.exp(fit.estimate(joint(step)).value)
            how = f" (all changes together: {total:.2f}×)"
        return f"the effects of {names} depend on each other{how}: no share of the whole belongs to one of them"
    return f"whether the effects of {names} depend on each other is not settled by these runs"


def alias_words(definition: Definition, design: Design) -> tuple[str, ...]:
    """What a fraction cannot tell apart, one line a contrast of low order."""
    if design.is_full:
        return ()
    names = [factor.name for factor in definition.factors]
    low = [group for group in alias_classes(design) if len(group[0]) <= 2]
    return tuple(" = ".join(term_words(names, word) for word in group) for group in low)


def design_words(definition: Definition, design: Design) -> str:
    """`full 2×2×2, 8 cells`, or the fraction with its generators."""
    size = "×".join(str(count) for count in design.levels)
    if design.is_full:
        return f"full {size}, {len(design.cells)} cells"
    names = [factor.name for factor in definition.factors]
    made = "; ".join(f"{names[factor]} = {term_words(names, word)}" for factor, word in design.generators)
    share = f"1/{2 ** len(design.generators)}"
    return f"{share} of {size}, {len(design.cells)} cells, resolution {design.resolution} ({made})"
