"""An experiment as a value: a contract, factors by layer, a design, and what counts as small."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from lynxbench.model.canonical import content_id
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.fields import Count, Name, One, Ratio, Scalar, Seconds, Text, refuse
from lynxbench.model.launching import ARGUMENTS
from lynxbench.model.layers import Layer
from lynxbench.model.serving import ServedEngine
from lynxbench.model.surroundings import VariableName
from lynxbench.stats.designs import LARGEST_FRACTION_FACTORS, Design, Word, fraction_of, fractional_design, full_design

MOST_CELLS = 256
"""Each is several fresh processes; a design beyond this wants a fraction."""
SMALLEST_EFFECT = 0.05
"""Interactions below 5 % change nobody's conclusion about which layer to work on."""
DEFAULT_RESTARTS = 5


def _shaped(pattern: str, words: str) -> AfterValidator:
    """A text of that pattern; `words` say what would be right."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} does not fit here; {words}")
        return text

    return AfterValidator(check)


Target = Annotated[
    str,
    Field(max_length=120),
    _shaped(
        r"engine\.serve\.arguments\.[a-z][a-z0-9._-]*|(engine|workload)\.[a-z_.]+|environment\.[A-Za-z_][A-Za-z0-9_]*|server\.[a-z][a-z0-9_]*|packages",
        "use engine.KEY, workload.KEY, environment.VARIABLE, server.NAME or packages",
    ),
]
Response = Annotated[
    str,
    _shaped(
        "throughput|(latency|time-to-first-token|time-per-token)-p(50|90|95|99)",
        "use throughput, or latency, time-to-first-token or time-per-token with -p50, -p90, -p95 or -p99",
    ),
]
ServerValue = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class Level(Document):
    """A named level that sets several things at once; sets nothing: leaves things as the contract has them."""

    name: Annotated[Text, Field(description="how the level is called")]
    sets: dict[Target, Scalar] = Field(default_factory=dict)


class Factor(Document):
    """One thing that is varied, in one layer. The first level is how things are."""

    name: Annotated[Name, Field(description="how the factor is called, such as threads")]
    layer: Annotated[Layer, Field(description="the layer that it belongs to, such as system")]
    sets: Target | None = None
    levels: Annotated[
        tuple[Scalar | Level, ...],
        Field(min_length=2, max_length=8, description="two to eight values; the first is how things are"),
    ]
    target: Scalar | None = None
    """The level that the joint change goes to; the last one if left out."""

    @model_validator(mode="after")
    def _levels_are_complete(self) -> Factor:
        for index, level in enumerate(self.levels):
            if not isinstance(level, Level) and self.sets is None:
                refuse(f"{level!r} says no key to set; add `sets` to the factor", f"levels.{index}")
        names = self.level_names
        for index, name in enumerate(names):
            if name in names[:index]:
                refuse(f"{name} stands twice; levels must differ", f"levels.{index}")
        if self.target is not None and spelled(self.target) not in names[1:]:
            refuse(f"{spelled(self.target)} is not one of the changed levels: {', '.join(names[1:])}", "target")
        return self

    @property
    def level_names(self) -> tuple[str, ...]:
        """How each level is called."""
        return tuple(level.name if isinstance(level, Level) else spelled(level) for level in self.levels)

    @property
    def target_index(self) -> int:
        """Position of the level that the joint change goes to."""
        return len(self.levels) - 1 if self.target is None else self.level_names.index(spelled(self.target))

    def settings(self, index: int) -> dict[str, Scalar]:
        """What a level sets."""
        level = self.levels[index]
        if isinstance(level, Level):
            return dict(level.sets)
        assert self.sets is not None
        return {self.sets: level}


class DesignChoice(Document):
    """All combinations, or a fraction of them (two levels each) with its generators said or chosen."""

    kind: Literal["full", "fractional"] = "full"
    generated: Count | None = None
    """How many factors take the column of an interaction: 1 halves the cells, 2 quarters them."""
    generators: tuple[Text, ...] = ()
    """Such as `d = a * b * c`, by factor names."""


class Infeasible(Document):
    """Combinations known in advance to be impossible; they are recorded with the reason, not tried."""

    when: Annotated[dict[Name, Scalar], Field(min_length=1, description="levels by factor, such as {batch: 32}")]
    reason: Annotated[Text, Field(description="why they cannot be run together")]


class ServerCommand(Document):
    """A server that is started for every visit; `{name}` in its command is set by factors on `server.name`."""

    command: Annotated[tuple[Text, ...], Field(min_length=1, description="the words that start the server")]
    values: dict[ServerValue, Scalar] = Field(default_factory=dict)
    """What `{name}` stands for where no factor sets it."""
    ready: Annotated[Text, Field(description="an address that answers once the server can be asked")]
    ready_within_s: Annotated[Seconds, Field(alias="ready_within", gt=0)] = 120.0


class MachineLane(Document):
    """A part of the machine that no other lane uses: CPUs, and variables such as CUDA_VISIBLE_DEVICES."""

    cpus: Annotated[
        tuple[Annotated[int, Field(ge=0, le=4095)], ...],
        Field(min_length=1, description="numbers of the CPUs that this lane has to itself"),
    ]
    environment: dict[VariableName, Text] = Field(default_factory=dict)


class Definition(Document):
    """What an experiment file says. Its id is the SHA-256 of its canonical form."""

    lynxbench_experiment: One
    name: Annotated[Name, Field(description="a short name in lower case, such as threads-and-batch")]
    question: Annotated[Text, Field(description="what the experiment is to tell, in a sentence")]
    contract: Annotated[Contract, Field(description="a contract's name, its file, or the contract itself")]
    response: Response = "throughput"
    smallest_effect: Annotated[Ratio, Field(gt=0, le=1)] = SMALLEST_EFFECT
    restarts: Annotated[int, Field(ge=1, le=100)] = DEFAULT_RESTARTS
    design: DesignChoice = DesignChoice()
    factors: Annotated[
        tuple[Factor, ...],
        Field(min_length=1, max_length=LARGEST_FRACTION_FACTORS, description="what is varied, each with its levels"),
    ]
    infeasible: tuple[Infeasible, ...] = ()
    server: ServerCommand | None = None
    inherit_packages: bool = True
    """Whether environments made from lock files take what the lock does not name from the running environment."""
    lanes: tuple[MachineLane, ...] = ()
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 20260101

    @model_validator(mode="after")
    def _fits(self) -> Definition:
        names = [factor.name for factor in self.factors]
        for index, name in enumerate(names):
            if name in names[:index]:
                refuse(f"factor {name} stands twice", f"factors.{index}.name")
        self._check_targets()
        for index, ruled in enumerate(self.infeasible):
            for name, value in ruled.when.items():
                if name not in names:
                    refuse(f"no factor is called {name}; there are {', '.join(names)}", f"infeasible.{index}.when")
                known = self.factors[names.index(name)].level_names
                if spelled(value) not in known:
                    says = f"{spelled(value)} is no level of {name}; it has {', '.join(known)}"
                    refuse(says, f"infeasible.{index}.when.{name}")
        keys = {key for factor in self.factors for at in range(len(factor.levels)) for key in factor.settings(at)}
        if len(self.contract.workload.precisions) > 1 and not keys & {"workload.precision", "workload.precisions"}:
            refuse("lists several precisions; keep one, or make workload.precision a factor", "contract")
        used: set[int] = set()
        for index, lane in enumerate(self.lanes):
            if used & set(lane.cpus):
                refuse("shares CPUs with another lane: they would disturb each other", f"lanes.{index}.cpus")
            used |= set(lane.cpus)
        try:
            cells = len(self.plan().cells)
        except ValueError as error:
            refuse(str(error), "design")
        if cells > MOST_CELLS:
            refuse(f"{cells} combinations are more than {MOST_CELLS}; take a fractional design", "design")
        return self

    def _check_targets(self) -> None:
        held: dict[str, str] = {}
        for index, factor in enumerate(self.factors):
            keys = {key for level in range(len(factor.levels)) for key in factor.settings(level)}
            for key in sorted(keys):
                if key in held:
                    refuse(f"{key} is set by factor {held[key]} already", f"factors.{index}.sets")
                held[key] = factor.name
                if key.startswith("server.") and (self.server is None or f"{{{key[7:]}}}" not in self._command):
                    refuse(f"{key}: no {{{key[7:]}}} in server.command to fill", f"factors.{index}.sets")
                if key.startswith(ARGUMENTS) and not self.launches:
                    refuse(f"{key}: the contract starts no server; give it engine.serve", f"factors.{index}.sets")
                in_process = key == "packages" or key.startswith("environment.")
                started = self.server is not None or self.launches
                if in_process and isinstance(self.contract.engine, ServedEngine) and not started:
                    refuse(f"{key}: the server is not started here; give `server`", f"factors.{index}.sets")
        if self.server is not None and not isinstance(self.contract.engine, ServedEngine):
            refuse(f"engine {self.contract.engine.name} runs in-process and has no server", "server")
        if self.server is not None and self.launches:
            refuse("the contract starts its server already (engine.serve); leave out one of the two", "server")
        if self.lanes and isinstance(self.contract.engine, ServedEngine):
            refuse("a server's visits share its address; run them one after another", "lanes")

    @property
    def launches(self) -> bool:
        """Whether the contract itself starts its server."""
        return isinstance(self.contract.engine, ServedEngine) and self.contract.engine.serve is not None

    @property
    def _command(self) -> str:
        return " ".join(self.server.command) if self.server is not None else ""

    def plan(self) -> Design:
        """The design's cells; ValueError says what is wrong with it."""
        counts = [len(factor.levels) for factor in self.factors]
        choice = self.design
        if choice.kind == "full":
            if choice.generators or choice.generated:
                raise ValueError("generators belong to a fractional design; write kind: fractional")
            return full_design(counts)
        if any(count != 2 for count in counts):
            raise ValueError("a fractional design needs factors of two levels each")
        if choice.generators:
            return fraction_of(len(counts), [self._generator(text) for text in choice.generators])
        return fractional_design(len(counts), choice.generated or 1)

    def _generator(self, text: str) -> tuple[int, Word]:
        names = [factor.name for factor in self.factors]
        left, sign, right = text.partition("=")
        words = [word.strip() for word in re.split(r"[*×]", right)]
        if not sign or left.strip() not in names or any(word not in names for word in words):
            raise ValueError(f"generator {text!r} is not `factor = factor * factor` with names of {', '.join(names)}")
        return names.index(left.strip()), frozenset(names.index(word) for word in words)

    def canonical(self) -> dict[str, object]:
        """The whole meaning with defaults filled in."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def definition_id(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return content_id(self.canonical())  # type: ignore[arg-type]


def spelled(value: Scalar) -> str:
    """A level as people read it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
