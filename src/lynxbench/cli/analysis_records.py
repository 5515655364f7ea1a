"""How the runs of an experiment, a tuning or a fleet, and what they say together, come into the ledger."""

from pathlib import Path

from lynxbench.cli.output import recorder_for
from lynxbench.cli.terminal import tell
from lynxbench.errors import LynxbenchError
from lynxbench.model.canonical import short
from lynxbench.record.recording import LedgerRecorder
from lynxbench.record.recording_analyses import read_analysis, record_analysis


class AnalysisRecords:
    """A recorder for every run, and what is to be told about them at the end."""

    def __init__(self, ledger: str | None) -> None:
        self._ledger = ledger
        self._recorders: list[LedgerRecorder] = []

    def __call__(self) -> LedgerRecorder | None:
        """The recorder of the next run; None where none is wanted."""
        recorder = recorder_for(self._ledger)
        if recorder is not None:
            self._recorders.append(recorder)
        return recorder

    @property
    def wanted(self) -> bool:
        """Whether runs are recorded at all."""
        return recorder_for(self._ledger) is not None

    def conclude(self, folder: Path) -> str:
        """Sign what the recorded runs say together and tell what is to be known about the record; a line for people.

        The line is empty where nothing was recorded.
        """
        line = self._conclude(folder)
        self.tell_news()
        return line

    def tell_news(self) -> None:
        """What is to be known about the record: a key was made, or the ledger could not record a run."""
        news = [recorder.news for recorder in self._recorders if recorder.news is not None]
        problems = [
            f"not recorded: {recorder.problem}; the run is kept" for recorder in self._recorders if recorder.problem
        ]
        for text in dict.fromkeys([*news, *problems]):
            tell(f"lynxbench: {text}")

    def _conclude(self, folder: Path) -> str:
        recorder = self()
        if recorder is None:
            return ""
        try:
            analysis = read_analysis(folder)
        except LynxbenchError as error:
            recorder.problem = str(error)
            return ""
        recorded = recorder.take(lambda ledger, key: record_analysis(ledger, analysis, key))
        if recorded is None:
            return ""
        name = short(recorded.result_id)
        return f"sha256:{name}…, entry {recorded.seq}   verify: lynxbench verify {name}"
