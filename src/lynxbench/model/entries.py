"""What a ledger holds: signed entries about contracts, runs, results, doubts, changes, analyses and decisions.

An entry is small. The documents it speaks of (result, samples, registration, trace) are blobs named by their SHA-256.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, JsonValue

from lynxbench.model.canonical import content_id
from lynxbench.model.document import Bounds, Document
from lynxbench.model.fields import Sha256, Tags
from lynxbench.model.figures import Figure
from lynxbench.model.late_contract import LateContract
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.team_names import Teams
from lynxbench.model.verdicts import ValidityVerdict
from lynxbench.model.verification import were_recomputed

if TYPE_CHECKING:
    from lynxbench.model.contract import Contract
else:
    Contract = Any  # its form is that of LateContract

Reason = Annotated[str, Field(min_length=1, max_length=4000)]


class Role(StrEnum):
    """In which capacity a key signs."""

    RUNNER = "runner"
    """Measured it."""
    WITNESS = "witness"
    """Verified or co-signed it, and belongs to another team."""


class EntryKind(StrEnum):
    """What an entry says."""

    CONTRACT = "contract"
    REGISTRATION = "registration"
    RESULT = "result"
    ABANDONED = "abandoned"
    VERIFICATION = "verification"
    RERUN = "rerun"
    CONTEST = "contest"
    RETRACTION = "retraction"
    CHANGE = "change"
    CHANGE_MEASURED = "change-measured"
    DECISION = "decision"
    FOREIGN = "foreign"
    EXPERIMENT = "experiment"
    TUNING = "tuning"
    FLEET = "fleet"
    AGREEMENT = "agreement"
    KEY = "key"
    KEY_REVOKED = "key-revoked"
    LEFT_OUT = "traces-left-out"
    TAG = "tag"
    NOTE = "note"


ACTS = {
    EntryKind.REGISTRATION: Role.RUNNER,
    EntryKind.RESULT: Role.RUNNER,
    EntryKind.ABANDONED: Role.RUNNER,
    EntryKind.VERIFICATION: Role.WITNESS,
    EntryKind.RERUN: Role.WITNESS,
}
"""In which role a key acts when it signs an entry; what is not here is open to every trusted key."""

RESULT_BLOB = "result.json"
"""The document of a result, among the files that its entry names."""


class Blob(Document):
    """A document that an entry speaks of, held by its content."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    sha256: Sha256
    size_bytes: Annotated[int, Field(ge=0)]


class ContractAgreed(Document):
    """A contract, from now on named by its id."""

    kind: Literal[EntryKind.CONTRACT] = EntryKind.CONTRACT
    contract_id: Sha256
    contract: Annotated[Contract, LateContract]


class RunRegistered(Document):
    """A run that is about to be measured; its result or its abandonment must follow."""

    kind: Literal[EntryKind.REGISTRATION] = EntryKind.REGISTRATION
    run_id: str
    nonce: str
    contract_id: Sha256
    executor_id: Sha256
    processes_planned: int


class PrecisionSummary(Document):
    """The figures by which results are listed; the whole result is the blob."""

    precision: Precision
    throughput: Figure | None
    run_means: tuple[float, ...] = ()
    validity: ValidityVerdict
    steady: str | None = None


class ResultRecorded(Document):
    """A finished run, also a void one."""

    kind: Literal[EntryKind.RESULT] = EntryKind.RESULT
    result_id: Sha256
    run_id: str
    nonce: str
    contract_id: Sha256
    contract_name: str
    executor_id: Sha256
    instance_id: Sha256
    layer_ids: dict[Layer, Sha256]
    """Configuration hash of each layer: which one changed is known without opening the documents."""
    weights: Sha256 | None
    """Hash over the model's files: a change of the model is not a change of the executor."""
    started_at: str
    finished_at: str
    validity: ValidityVerdict
    per_precision: tuple[PrecisionSummary, ...]
    attempts: int
    """Processes started, including those that failed or were interrupted."""
    bottleneck: str | None = None
    teams: Annotated[Teams, Field(exclude_if=lambda teams: not teams)] = ()
    """Teams whose signatures the contract asks for; left unsaid where there are none, as before there were any."""


class RunAbandoned(Document):
    """A registered run that ended without a result, and why."""

    kind: Literal[EntryKind.ABANDONED] = EntryKind.ABANDONED
    run_id: str
    nonce: str
    contract_id: Sha256
    attempts: int
    reason: Reason


class ResultVerified(Document):
    """Somebody recomputed a result from its samples."""

    kind: Literal[EntryKind.VERIFICATION] = EntryKind.VERIFICATION
    result_id: Sha256
    holds: bool
    checks: tuple[str, ...]

    @property
    def verifies(self) -> bool:
        """Whether it found nothing wrong and recomputed the figures; earlier versions signed one without the other."""
        return self.holds and were_recomputed(self.checks)


class RerunVerdict(StrEnum):
    """What a second execution of the same contract says."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    EXECUTOR_DIFFERS = "executor differs"
    INCONCLUSIVE = "inconclusive"


class ResultRerun(Document):
    """The same contract executed again, by whoever signs this."""

    kind: Literal[EntryKind.RERUN] = EntryKind.RERUN
    result_id: Sha256
    rerun_id: Sha256
    verdict: RerunVerdict
    effects: dict[Precision, Bounds]
    """Rerun over original, by precision."""
    differing: tuple[str, ...] = ()
    """layer.field of every difference."""


class ResultContested(Document):
    """Somebody does not accept a result, and says why."""

    kind: Literal[EntryKind.CONTEST] = EntryKind.CONTEST
    result_id: Sha256
    reason: Reason
    cites: tuple[Sha256, ...] = ()


class ResultRetracted(Document):
    """Its own team takes a result back; it stays in the record."""

    kind: Literal[EntryKind.RETRACTION] = EntryKind.RETRACTION
    result_id: Sha256
    reason: Reason


class ChangeDeclared(Document):
    """One intervention in one layer by its owner, with what it is expected to do, before it is measured."""

    kind: Literal[EntryKind.CHANGE] = EntryKind.CHANGE
    contract_id: Sha256
    layer: Layer
    owner: str
    what: Reason
    expected: Bounds
    """Throughput after over before."""

    @property
    def change_id(self) -> str:
        """SHA-256 of the declaration."""
        return content_id(self.model_dump(mode="json", by_alias=True))


class ChangeVerdict(StrEnum):
    """What was expected against what came."""

    AS_EXPECTED = "as expected"
    LESS = "less than expected"
    MORE = "more than expected"
    NO_EFFECT = "no effect"
    INCONCLUSIVE = "inconclusive"


class ChangeMeasured(Document):
    """A declared change, re-measured."""

    kind: Literal[EntryKind.CHANGE_MEASURED] = EntryKind.CHANGE_MEASURED
    change_id: Sha256
    contract_id: Sha256
    before: Sha256
    after: Sha256
    precision: Precision
    effect: Bounds
    verdict: ChangeVerdict
    layers_differing: tuple[Layer, ...]


class DecisionTaken(Document):
    """A decision and the evidence it cites."""

    kind: Literal[EntryKind.DECISION] = EntryKind.DECISION
    question: str
    contract_id: Sha256 | None
    answer: Reason
    cites: tuple[Sha256, ...]
    document: dict[str, JsonValue] = {}


class ForeignImported(Document):
    """A result of another tool, with what it fails to state."""

    kind: Literal[EntryKind.FOREIGN] = EntryKind.FOREIGN
    tool: str
    figures: dict[str, Figure]
    stated: dict[str, JsonValue]
    missing: tuple[str, ...]


class Concluded(Document):
    """What several results say together. The analysis is a document of the entry; it can be made again from them."""

    kind: EntryKind
    analysis_id: Sha256
    """SHA-256 of the analysis in its canonical form, which is also its document's name."""
    name: Annotated[str, Field(min_length=1, max_length=200)]
    """What its folder is called: the experiment's, the tuning's or the fleet run's own id."""
    contract_name: str
    base_contract_id: Sha256
    """The contract that cells and trials vary; theirs have ids of their own."""
    question: str
    word: Annotated[str, Field(min_length=1, max_length=80)]
    """The verdict in one word or two."""
    sentence: Reason
    cites: tuple[Sha256, ...]
    """Every result that it is made from, also those that were not chosen."""
    without_result: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ()
    """Its registered runs that were abandoned: cells that could not be run."""


class ExperimentConcluded(Concluded):
    """What the cells of a factorial experiment say together."""

    kind: Literal[EntryKind.EXPERIMENT] = EntryKind.EXPERIMENT


class TuningConcluded(Concluded):
    """What bounded optimisation came to, with every trial and confirmation."""

    kind: Literal[EntryKind.TUNING] = EntryKind.TUNING


class FleetConcluded(Concluded):
    """One contract on many machines: who stands apart, and in which layer."""

    kind: Literal[EntryKind.FLEET] = EntryKind.FLEET


class ContractSigned(Document):
    """A team agrees to a contract: to that id, and to no other. Who it is, is said by the key alone."""

    kind: Literal[EntryKind.AGREEMENT] = EntryKind.AGREEMENT
    contract_id: Sha256


class KeyAnnounced(Document):
    """Whose key this is, since when and in which roles."""

    kind: Literal[EntryKind.KEY] = EntryKind.KEY
    keyid: Sha256
    public_key: str
    team: str
    roles: tuple[Role, ...]
    since: str
    until: str | None = None
    token: Annotated[str, Field(max_length=16_384)] | None = None
    """The ID token that binds a short-lived key to an identity of its issuer; it is made out to this key alone."""


class KeyRevoked(Document):
    """From when on the signatures of a key do not count, and why."""

    kind: Literal[EntryKind.KEY_REVOKED] = EntryKind.KEY_REVOKED
    keyid: Sha256
    since: str
    reason: Reason


class TracesLeftOut(Document):
    """Traces of a result that its exporter left out of a bundle: its attribution cannot be computed again from that."""

    kind: Literal[EntryKind.LEFT_OUT] = EntryKind.LEFT_OUT
    result_id: Sha256
    traces: Annotated[tuple[Sha256, ...], Field(min_length=1, max_length=10_000)]


class ResultTagged(Document):
    """A team puts its own tags on a result, or takes its own off again; it never touches another team's."""

    kind: Literal[EntryKind.TAG] = EntryKind.TAG
    result_id: Sha256
    put: Tags = ()
    taken: Tags = ()


class ResultNoted(Document):
    """What somebody wants others to know about a result; no doubt, and nothing rests on it."""

    kind: Literal[EntryKind.NOTE] = EntryKind.NOTE
    result_id: Sha256
    text: Reason


ANALYSES = (EntryKind.EXPERIMENT, EntryKind.TUNING, EntryKind.FLEET)

EntryBody = Annotated[
    ContractAgreed
    | RunRegistered
    | ResultRecorded
    | RunAbandoned
    | ResultVerified
    | ResultRerun
    | ResultContested
    | ResultRetracted
    | ChangeDeclared
    | ChangeMeasured
    | DecisionTaken
    | ForeignImported
    | ExperimentConcluded
    | TuningConcluded
    | FleetConcluded
    | ContractSigned
    | KeyAnnounced
    | KeyRevoked
    | TracesLeftOut
    | ResultTagged
    | ResultNoted,
    Field(discriminator="kind"),
]


class Entry(Document):
    """One statement, before it is signed."""

    schema_version: Literal[1] = 1
    made_at: str
    """UTC, ISO 8601, by the signer's clock; the ledger's order is its own."""
    body: EntryBody
    blobs: tuple[Blob, ...] = ()
    invented: bool = False
    """A worked example says so in what is signed. Left out where it is not one: earlier versions read such entries."""
