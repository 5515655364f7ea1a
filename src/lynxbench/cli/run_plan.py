"""What a run would do and how long that takes, before it does anything; and a contract cut to the time there is."""

import math
import re
from dataclasses import asdict, dataclass

from lynxbench.cli.progress import duration_text, most_s, usual_s
from lynxbench.errors import BadInput
from lynxbench.evidence.run_folder import Slot
from lynxbench.experiment.cells import changed
from lynxbench.model.canonical import short
from lynxbench.model.contract import FEWEST_WINDOWS, Contract
from lynxbench.model.fields import Scalar
from lynxbench.model.quantities import format_duration, parse_quantity
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.inprocess_run import plan_of
from lynxbench.run.served_run import slots_of


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run of a contract would do."""

    contract: str
    contract_id: str
    processes: int
    restarts: int
    precisions: tuple[str, ...]
    searches: bool
    """Whether the first process looks for the rate that the others are measured at."""
    about_s: float
    at_most_s: float

    def document(self) -> dict[str, object]:
        """For programs."""
        return asdict(self)

    def text(self) -> str:
        """For people."""
        search = "a search for the saturation first, then " if self.searches else ""
        return (
            f"{self.contract} ({short(self.contract_id)}): {search}{self.restarts} restarts × "
            f"{', '.join(self.precisions)}, {self.processes} fresh processes in all\n"
            f"about {duration_text(self.about_s)}, at most {duration_text(self.at_most_s)}; before it the executor is "
            "captured, after it the report is written and recorded\n"
            "nothing was done: without --plan it is; --within 10m would fit it into ten minutes\n"
        )


def plan_run(contract: Contract) -> RunPlan:
    """The plan of a contract; nothing is started, asked or written."""
    slots = _slots(contract)
    return RunPlan(
        contract=contract.name,
        contract_id=contract.contract_id,
        processes=len(slots),
        restarts=contract.protocol.restarts,
        precisions=tuple(precision.value for precision in contract.workload.precisions),
        searches=isinstance(contract.workload.arrival, SaturatingArrival),
        about_s=round(sum(usual_s(contract, slot) for slot in slots), 1),
        at_most_s=round(sum(most_s(contract, slot) for slot in slots), 1),
    )


def fit_within(contract: Contract, within: str) -> Contract:
    """The contract with as much measuring as fits, in the same proportions; as it is where all of it does.

    It is another contract then, under another id: what was agreed was agreed for the whole.
    """
    allowed_s = parse_quantity(re.sub(r"(?<=\d)\s*m$", " min", within.strip()), "s", "--within").in_unit("s")
    slots, protocol, arrival = _slots(contract), contract.protocol, contract.workload.arrival
    budget_s = arrival.budget_s if isinstance(arrival, SaturatingArrival) else 0.0
    runs = len(slots) - (1 if budget_s else 0)
    whole_s, measured_s = sum(most_s(contract, slot) for slot in slots), runs * protocol.limit_s + budget_s
    if whole_s <= allowed_s:
        return contract
    if protocol.duration_s is not None:
        asked = format_duration(protocol.duration_s)
        raise BadInput(f"--within {within}: the contract asks for {asked} in one piece; give protocol.duration less")
    share = (allowed_s - (whole_s - measured_s)) / measured_s
    least_s = FEWEST_WINDOWS * protocol.steady.window_s
    if share * protocol.limit_s < least_s:
        needed_s = whole_s - measured_s + measured_s * least_s / protocol.limit_s
        raise BadInput(
            f"--within {within}: {len(slots)} processes need {duration_text(math.ceil(needed_s))} at least "
            f"({FEWEST_WINDOWS} windows of {format_duration(protocol.steady.window_s)} each); give as much, or list "
            "fewer precisions or restarts in the contract"
        )
    limit_s = max(math.floor(share * protocol.limit_s * 10) / 10, least_s)
    keys: dict[str, Scalar] = {
        "protocol.limit": format_duration(limit_s),
        "protocol.min_duration": format_duration(min(protocol.min_duration_s, limit_s)),
    }
    if budget_s:
        keys["workload.arrival.budget"] = format_duration(math.floor(share * budget_s))
    return changed(contract, keys)


def _slots(contract: Contract) -> tuple[Slot, ...]:
    return slots_of(contract) if isinstance(contract.engine, ServedEngine) else plan_of(contract)
