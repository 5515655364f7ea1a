"""What bounded optimisation found, as a document: baseline and tuned side by side, and every trial."""

from enum import StrEnum

from lynxbench.model.document import Bounds, Document
from lynxbench.model.experiment import StudyDocument
from lynxbench.model.fields import Scalar


class TrialStatus(StrEnum):
    """What became of a trial."""

    MEASURED = "measured"
    REFUSED = "refused by the accuracy gate"
    FAILED = "failed"
    VOID = "void"


class Trial(Document):
    """One fresh process of one setting, during the search."""

    number: int
    setting: dict[str, Scalar]
    status: TrialStatus
    reason: str = ""
    response: float | None = None
    accuracy: str = ""
    run: str = ""
    """The run's folder."""
    contract_id: str | None = None
    result_id: str | None = None


class Confirmed(Document):
    """A setting on fresh processes and seeds that the search never saw."""

    setting: dict[str, Scalar]
    contract_id: str
    division: str
    response: Bounds
    values: tuple[float | None, ...]
    seeds: tuple[int, ...]
    result_ids: tuple[str, ...]
    accuracy: str


class WinnersCurse(Document):
    """How much the search's own figure flatters the setting that it chose."""

    in_search: float
    """The chosen setting's mean during the search. Not a result."""
    trials: int
    confirmed: Bounds
    loss: Bounds
    """Confirmed over searched, minus one: negative where the figure was luck."""


class TuningVerdict(StrEnum):
    """Whether tuning was worth it."""

    IMPROVED = "improved"
    INDICATED = "gain indicated, not proven"
    NO_GAIN = "no gain confirmed"
    WORSE = "worse than the baseline"
    NOTHING_PASSED = "no setting passed"
    REFUSED = "refused by the accuracy gate"


class TuningDocument(StudyDocument):
    """A tuning: what was allowed, what was tried, and what the confirmation says."""

    tuning_id: str
    division: str
    knobs: dict[str, tuple[Scalar, ...]]
    settings: int
    """Of the whole grid."""
    search: str
    trials_allowed: int | None
    time_allowed_s: float | None
    ended_by: str
    trials: tuple[Trial, ...]
    baseline: Confirmed | None
    tuned: Confirmed | None
    gain: Bounds | None
    """Tuned over baseline, by pairs of fresh processes on one seed each; of a latency, baseline over tuned."""
    winners_curse: WinnersCurse | None
    verdict: TuningVerdict
    sentence: str
