"""What the API answers, by name: the forms of its documents. Stored documents are those of `model`, as they are."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from lynxbench.evidence.keys import KeyCard
from lynxbench.ledger.checkpoints import Checkpoint
from lynxbench.ledger.queries import OpenRun
from lynxbench.model.contract import Contract
from lynxbench.model.entries import Concluded, Entry, PrecisionSummary
from lynxbench.model.executor import Executor, FieldChange
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.fleet import FleetReport
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.model.standing import Remark, Voice
from lynxbench.model.tuning import TuningDocument
from lynxbench.server.access import Token, User
from lynxbench.server.administration import AuditLine
from lynxbench.server.key_registry import RegisteredKey
from lynxbench.server.rights import AccessScope
from lynxbench.watch.notifying import Contact
from lynxbench.watch.regressions import Notice, NoticeDelivery
from lynxbench.watch.schedules import RegisteredAgent, ScheduledRun
from lynxbench.workload.representative import Likeness


class AnswerModel(BaseModel):
    """An answer: nothing in it that is not named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


# --- evidence ---------------------------------------------------------------------------------------------------------


class StandingAnswer(AnswerModel):
    """How a result stands, in words and by what was said about it."""

    summary: str
    words: list[str]
    result_id: str
    signed_by: list[str]
    revoked_signers: list[str]
    registered: bool
    verified: list[Remark]
    refuted: list[Remark]
    contested: list[Remark]
    retracted: list[Remark]
    reruns: list[Remark]


class ListedResult(AnswerModel):
    """A result in a list."""

    result_id: str
    run_id: str
    contract_id: str
    contract_name: str
    executor_id: str
    instance_id: str
    started_at: str
    validity: ValidityVerdict
    attempts: int
    bottleneck: str | None
    per_precision: list[PrecisionSummary]
    standing: StandingAnswer


class ResultList(AnswerModel):
    """`lynxbench results list --json`."""

    tree_size: int
    root_hash: str
    results: list[ListedResult]
    unfinished: list[OpenRun]


class EntryAbout(AnswerModel):
    """What somebody said about a result."""

    seq: int
    logged_at: str
    teams: list[str]
    keys: list[str]
    entry: Entry


class ResultAnswer(AnswerModel):
    """`lynxbench results show --json`."""

    result: Result
    standing: StandingAnswer
    entries: list[EntryAbout]


class ContractLineAnswer(AnswerModel):
    """A contract, and how many results it has."""

    contract_id: str
    name: str | None
    results: int


class ContractList(AnswerModel):
    contracts: list[ContractLineAnswer]


class ContractAnswer(AnswerModel):
    """A contract's text in its canonical form."""

    contract_id: str
    contract: Contract | None


class LikenessDimension(AnswerModel):
    name: str
    measure: str
    distance: float | None
    noise: float | None
    limit: float | None
    verdict: Likeness
    says: str


class LikenessAnswer(AnswerModel):
    """How far a contract's workload is from a production log."""

    contract_id: str
    requests: int
    log: str
    verdict: Likeness
    sentence: str
    dimensions: list[LikenessDimension]


class ExecutorName(AnswerModel):
    executor_id: str
    instance_id: str


class ExecutorAnswer(ExecutorName):
    """An executor as its newest result recorded it."""

    result_id: str
    executor: Executor


class ChangedField(FieldChange):
    """A field that differs, whose it is, and its steps in words."""

    owner: str
    items: list[str]


class ExecutorDifference(AnswerModel):
    """`lynxbench executor diff --json`."""

    a: ExecutorName
    b: ExecutorName
    same: bool
    layers: list[Layer]
    changes: list[ChangedField]


class ForeignLine(Entry):
    """A result of another tool."""

    seq: int
    by: str


class ForeignList(AnswerModel):
    foreign: list[ForeignLine]


class EntryLine(AnswerModel):
    """An entry of the log, and who signed it."""

    seq: int
    logged_at: str
    voice: Voice
    entry: Entry


class EntryList(AnswerModel):
    entries: list[EntryLine]


class DecisionList(AnswerModel):
    decisions: list[EntryLine]


class CheckpointLine(Checkpoint):
    """A signed state of the log."""

    keys: list[str]
    teams: list[str]


class LogAnswer(AnswerModel):
    """`lynxbench results log --json`."""

    ledger: str
    origin: str
    tree_size: int
    root_hash: str
    verified: str | None
    checkpoints: list[CheckpointLine]


class SignatureAnswer(AnswerModel):
    keyid: str
    sig: str


class EnvelopeAnswer(AnswerModel):
    """A DSSE envelope, byte by byte as it was hashed."""

    payload: str
    payload_type: str = Field(alias="payloadType")
    signatures: list[SignatureAnswer]


class ConsistencyProof(AnswerModel):
    """That the log begins with what it was (RFC 9162)."""

    earlier: int
    tree_size: int
    root_hash: str
    path: list[str]


class InclusionProof(AnswerModel):
    """The path from an entry to the root (RFC 9162)."""

    seq: int
    leaf: str
    tree_size: int
    root_hash: str
    path: list[str]


class AnalysisLine(Concluded):
    """An experiment, tuning or fleet run in a list."""

    seq: int
    made_at: str
    teams: list[str]


class AnalysisList(AnswerModel):
    analyses: list[AnalysisLine]


class ExperimentAnswer(ExperimentDocument):
    """`lynxbench experiment run --json`."""

    analysis_id: str


class TuningAnswer(TuningDocument):
    """`lynxbench tune --json`."""

    analysis_id: str


class FleetAnswer(FleetReport):
    """`lynxbench fleet run --json`."""

    analysis_id: str


# --- running ----------------------------------------------------------------------------------------------------------


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


class ScheduleList(AnswerModel):
    schedules: list[ScheduleAnswer]
    agents: list[RegisteredAgent]


class ClaimedRunAnswer(AnswerModel):
    """What an agent is to do now; `run` is null where nothing is due."""

    run: ScheduledRun | None
    contract: Contract | None = None
    lease_s: float | None = None
    last_node: str | None = None


class RunList(AnswerModel):
    runs: list[ScheduledRun]


class EventCount(AnswerModel):
    events: int


@dataclass(frozen=True, slots=True)
class ToldNotice(Notice):
    """A regression with the messages about it."""

    told: list[NoticeDelivery]


class NoticeList(AnswerModel):
    notices: list[ToldNotice]


# --- administering ----------------------------------------------------------------------------------------------------


class CallerAnswer(AnswerModel):
    """Who asks, and what they may do."""

    name: str
    team: str
    scopes: list[AccessScope]
    via: str


class KeyList(AnswerModel):
    server: KeyCard
    keys: list[RegisteredKey]


class UserList(AnswerModel):
    users: list[User]


class TokenList(AnswerModel):
    tokens: list[Token]


class NewTokenAnswer(AnswerModel):
    """A new token; its text is here and nowhere else."""

    token_id: str
    token: str


class ContactList(AnswerModel):
    contacts: list[Contact]


class AuditList(AnswerModel):
    lines: list[AuditLine]


class Disabled(AnswerModel):
    disabled: str


class Revoked(AnswerModel):
    revoked: str


class Removed(AnswerModel):
    removed: str


class Discarded(AnswerModel):
    discarded: str
