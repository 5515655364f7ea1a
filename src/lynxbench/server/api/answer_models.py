"""What the API's answers are made of, besides the stored documents of `model`, which stand in them as they are."""

from dataclasses import dataclass, field

from pydantic import Field

from lynxbench.ledger.checkpoints import Checkpoint
from lynxbench.model.agreement import TeamAgreement
from lynxbench.model.contract import Contract
from lynxbench.model.entries import Concluded, Entry, PrecisionSummary
from lynxbench.model.executor import FieldChange
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.fleet import FleetReport
from lynxbench.model.result import ValidityVerdict
from lynxbench.model.standing import Announcement, Remark, Voice
from lynxbench.model.tuning import TuningDocument
from lynxbench.server.routing import AnswerModel
from lynxbench.watch.recomputations import Recomputation, RecomputationState
from lynxbench.watch.regressions import Notice, NoticeDelivery
from lynxbench.watch.schedules import ScheduledRun
from lynxbench.workload.representative import Likeness


class StandingAnswer(AnswerModel):
    """How a result stands, in words and by what was said about it."""

    summary: str
    words: list[str]
    result_id: str
    signed_by: list[str]
    revoked_signers: list[str]
    registered: bool
    announced: Announcement | None
    runs_registered: int
    runs_without_result: int
    verified: list[Remark]
    inspected: list[Remark]
    verified_by_itself: list[Remark]
    refuted: list[Remark]
    contested: list[Remark]
    retracted: list[Remark]
    reruns: list[Remark]
    agreement: TeamAgreement | None = None


class ContractSignature(AnswerModel):
    """A team's signature under a contract."""

    team: str
    at: str
    seq: int
    revoked: bool


class AmendmentLine(AnswerModel):
    """A contract that another one replaces."""

    contract_id: str
    name: str | None
    no_longer_asked: list[str]
    problem: str


class RecomputedAnswer(AnswerModel):
    """What this server itself made of a result's figures, from its samples; its own word, not the log's."""

    state: RecomputationState
    sentence: str
    lines: list[str]
    at: str | None
    program: str | None


def recomputed_answer(outcome: Recomputation) -> RecomputedAnswer:
    """The outcome as the API says it."""
    return RecomputedAnswer(
        state=outcome.state,
        sentence=outcome.sentence,
        lines=list(outcome.lines),
        at=outcome.at,
        program=outcome.program,
    )


class TagAnswer(AnswerModel):
    """A tag that stands on a result, and whose it is."""

    tag: str
    team: str
    at: str
    seq: int


class NoteAnswer(AnswerModel):
    """What a team wants others to know about a result."""

    text: str
    team: str
    at: str
    seq: int


class ListedResult(AnswerModel):
    """A result in a list: the ledger's own row, declared again, since what the API answers is a promise of its own."""

    result_id: str
    run_id: str
    contract_id: str
    contract_name: str
    executor_id: str
    instance_id: str
    machine: str
    """The letter of its machine, in the order in which the ledger first saw them."""
    started_at: str
    validity: ValidityVerdict
    attempts: int
    bottleneck: str | None
    per_precision: list[PrecisionSummary]
    standing: StandingAnswer
    tags: list[TagAnswer]
    recomputed: RecomputedAnswer


class EntryAbout(AnswerModel):
    """What somebody said about a result."""

    seq: int
    logged_at: str
    teams: list[str]
    keys: list[str]
    entry: Entry


class ContractLineAnswer(AnswerModel):
    """A contract, and how many results it has."""

    contract_id: str
    name: str | None
    results: int


class LikenessDimension(AnswerModel):
    """One dimension in which a production log was held against a contract."""

    name: str
    measure: str
    distance: float | None
    noise: float | None
    limit: float | None
    verdict: Likeness
    says: str


class ExecutorName(AnswerModel):
    """Which of two executors."""

    executor_id: str
    instance_id: str


class ChangedField(FieldChange):
    """A field that differs, whose it is, and its steps in words."""

    owner: str
    items: list[str]


class ForeignLine(Entry):
    """A result of another tool."""

    seq: int
    by: str


class EntryLine(AnswerModel):
    """An entry of the log, and who signed it."""

    seq: int
    logged_at: str
    voice: Voice
    entry: Entry


class CheckpointLine(Checkpoint):
    """A signed state of the log."""

    keys: list[str]
    teams: list[str]


class WitnessLine(AnswerModel):
    """That a witness saw the log."""

    team: str
    keyid: str
    tree_size: int
    seen_at: str


class SplitLine(AnswerModel):
    """Proof that a log lied to somebody."""

    origin: str
    tree_size: int
    told_at: str
    notes: list[str]


class SignatureAnswer(AnswerModel):
    """One key's signature, in base64."""

    keyid: str
    sig: str


class EnvelopeAnswer(AnswerModel):
    """A DSSE envelope, byte by byte as it was hashed."""

    payload: str
    payload_type: str = Field(alias="payloadType")
    signatures: list[SignatureAnswer]


class AnalysisLine(Concluded):
    """An experiment, tuning or fleet run in a list."""

    seq: int
    made_at: str
    teams: list[str]


class ExperimentAnswer(ExperimentDocument):
    """`lynxbench experiment run --json`."""

    analysis_id: str


class TuningAnswer(TuningDocument):
    """`lynxbench tune --json`."""

    analysis_id: str


class FleetAnswer(FleetReport):
    """`lynxbench fleet run --json`."""

    analysis_id: str


class ScheduleAnswer(AnswerModel):
    """A contract on a timetable."""

    name: str
    team: str
    timetable: str
    contract_id: str
    contract: Contract
    agents: list[str]
    made_at: str
    made_by: str
    paused_at: str | None


class ClaimedRunAnswer(AnswerModel):
    """What an agent is to do now; `run` is null where nothing is due."""

    run: ScheduledRun | None
    contract: Contract | None = None
    lease_s: float | None = None
    last_node: str | None = None


@dataclass(frozen=True, slots=True)
class ToldNotice(Notice):
    """A regression with the messages about it."""

    told: list[NoticeDelivery] = field(default_factory=list)
