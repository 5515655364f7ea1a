"""What a search that was stopped half-way can state: kept after every probe, said when it is interrupted."""

from pathlib import Path

from lynxbench.evidence.whole_files import write_text
from lynxbench.model.load_figures import SaturationRecord
from lynxbench.model.plain_numbers import plain

SO_FAR_FILE = "saturation-so-far.json"


def keep_so_far(folder: Path, search: SaturationRecord) -> None:
    """Write down what could be stated if the search ended now."""
    write_text(folder / SO_FAR_FILE, search.model_dump_json(indent=1))


def forget_so_far(folder: Path) -> None:
    """The search has ended, and its own record says more."""
    (folder / SO_FAR_FILE).unlink(missing_ok=True)


def said_so_far(folder: Path) -> str:
    """A sentence on the newest search below a run's folder that did not end; empty where there is none."""
    kept = sorted(folder.rglob(SO_FAR_FILE), key=lambda file: file.stat().st_mtime_ns)
    if not kept:
        return ""
    search = SaturationRecord.model_validate_json(kept[-1].read_bytes())
    asked = f"{search.probe_s:.3g} s of probes"
    if search.at_least_per_s is None:
        return f"The search so far ({asked}) shows no rate that holds. "
    return (
        f"The search so far ({asked}): holds at least {plain(search.at_least_per_s, 4)} requests/s, not shown beyond. "
    )
