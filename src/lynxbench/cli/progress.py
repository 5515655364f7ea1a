"""Progress on standard error: a bar with an honest remaining time on a terminal, plain lines elsewhere."""

from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from lynxbench.cli.terminal import tell
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.load.completion_ceiling import ladder_s
from lynxbench.model.contract import Contract
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.workload import SaturatingArrival
from lynxbench.run.attempts import measured_before_s
from lynxbench.run.fresh_job import ENDURING, PROBING
from lynxbench.visible import visible_line

_FIRST_GUESS_SETUP_S = 12.0
_FIRST_GUESS_EXTRAS_S = 12.0
"""Start-up, and the passes after a precision's first process; replaced by what was seen as soon as there is any."""
_LONGEST_CEILING_S = 30.0
"""A search begins with the completion rate at many requests in flight, for longer where the server is slow; loops with
other numbers in flight come on top."""


class ProgressBar:
    """One bar for everything that is under way, on a terminal alone; lines stand above it, or by themselves."""

    def __init__(self, first: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %  {task.fields[rest]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(first, total=1.0, rest="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def drawn(self) -> bool:
        """Whether anybody sees the bar."""
        return not self._progress.disable

    def draw(self, **changed: Any) -> None:
        """Its words (`description`), how far it is (`completed`, of 1), what is said of the rest (`rest`)."""
        words = {name: visible_line(value) for name, value in changed.items() if isinstance(value, str)}
        self._progress.update(self._task, **(changed | words))

    def say(self, line: str) -> None:
        """A line that stays."""
        if self.drawn:
            self._progress.console.print(Text(visible_line(line)))
        else:
            tell(line)


class TerminalProgress(ProgressBar):
    """Tells a person how far the run is and how long it will still take."""

    def __init__(self, contract: Contract) -> None:
        super().__init__("capturing the executor")
        self._contract = contract
        self._plan: tuple[Slot, ...] = ()
        self._done: list[tuple[Slot, float]] = []
        self._dropped: set[str] = set()
        self._last_stage = ""
        self._told: int | None = None
        """The last process of which a line was said."""
        self._tenth = 0
        self._earlier_s: dict[int, float] = {}

    def begin(self, run: RunFolder) -> None:
        """The run is registered and starts, or goes on."""
        self._plan = run.registration.plan
        self._earlier_s = {slot.index: measured_before_s(run, slot) for slot in self._plan}
        at_most_s = sum(most_s(self._contract, slot) for slot in self._plan)
        self.say(
            f"{self._contract.name}: {len(self._plan)} processes "
            f"({self._contract.protocol.restarts} restarts × {len(self._contract.workload.precisions)} precisions), "
            f"about {duration_text(self._left_s(None, 0.0))}, at most {duration_text(at_most_s)}, into {run.path}"
        )

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""
        label = f"{self._name(slot)} · {stage}"
        left_s = self._left_s(slot, spent_s)
        if self.drawn:
            passed_s = sum(seconds for _, seconds in self._done) + spent_s
            counted = f" · {iterations} iterations" if iterations else ""
            self.draw(
                description=label + counted,
                completed=passed_s / max(passed_s + left_s, 1e-9),
                rest=f"about {duration_text(left_s)} left",
            )
        elif label != self._last_stage and (stage in ("setup", "measure") or stage.startswith(PROBING)):
            self._told = slot.index
            self.say(f"  {label} (about {duration_text(left_s)} left)")
        elif stage.startswith(ENDURING) and (tenth := int(10 * spent_s / usual_s(self._contract, slot))) > self._tenth:
            self._tenth, self._told = tenth, slot.index
            self.say(f"  {label} (about {duration_text(left_s)} left)")
        self._last_stage = label

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self._done.append((slot, spent_s))
        if report.status is not JobStatus.DONE and slot.restart == 0:
            self._dropped.add(slot.precision.value)
        if report.status is JobStatus.FAILED:
            self.say(f"  {slot.precision.value} {slot.restart + 1}: failed: {report.error}")
        elif report.skip is not None:
            self.say(f"  {slot.precision.value}: {report.skip.reason}")
        elif not self.drawn and self._told != slot.index:  # over before it was looked at, or seen between stages alone
            self.say(f"  {self._name(slot)} · measured in {duration_text(spent_s)}")

    def _name(self, slot: Slot) -> str:
        return f"{slot.precision.value} {slot.restart + 1}/{self._contract.protocol.restarts}"

    def note(self, text: str) -> None:
        """A step between processes."""
        self.draw(description=text, rest="")

    def _left_s(self, current: Slot | None, spent_s: float) -> float:
        """From what processes took so far; before the first one, from the contract and a guess."""
        ended = {slot.index for slot, _ in self._done}
        rest = [s for s in self._plan if s.index not in ended and s.precision.value not in self._dropped]
        left = sum(self._typical_s(slot) for slot in rest)
        return max(left - spent_s, 1.0) if current is not None else left

    def _typical_s(self, slot: Slot) -> float:
        alike = [
            s for done, s in self._done if done.precision is slot.precision and self._kind(done) == self._kind(slot)
        ]
        earlier_s = self._earlier_s.get(slot.index, 0.0)  # of an endurance run that goes on
        return sum(alike) / len(alike) if alike else usual_s(self._contract, slot) - earlier_s

    def _kind(self, slot: Slot) -> tuple[bool, bool]:
        return slot.restart == 0, is_search(self._contract, slot)


def most_s(contract: Contract, slot: Slot) -> float:
    """All the time that a contract gives a process, with what is guessed of its start and its other passes."""
    arrival = contract.workload.arrival
    if isinstance(arrival, SaturatingArrival) and is_search(contract, slot):
        ceiling_s = _LONGEST_CEILING_S + ladder_s(arrival.budget_s)
        return _FIRST_GUESS_SETUP_S + ceiling_s + arrival.budget_s
    extras = _FIRST_GUESS_EXTRAS_S if slot.restart == 0 else 0.0
    return _FIRST_GUESS_SETUP_S + (contract.protocol.duration_s or contract.protocol.limit_s) + extras


def usual_s(contract: Contract, slot: Slot) -> float:
    """What it takes where it is steady halfway between the shortest and the longest that the contract allows."""
    protocol = contract.protocol
    fixed = is_search(contract, slot) or protocol.duration_s is not None
    spared_s = 0.0 if fixed else (protocol.limit_s - protocol.min_duration_s) / 2
    return most_s(contract, slot) - spared_s


def is_search(contract: Contract, slot: Slot) -> bool:
    """Whether a process looks for the rate that the others are measured at."""
    return slot.index == 0 and isinstance(contract.workload.arrival, SaturatingArrival)


def duration_text(seconds: float) -> str:
    """A rest of time as people say it."""
    return f"{seconds / 60:.1f} min" if seconds >= 90 else f"{seconds:.0f} s"
