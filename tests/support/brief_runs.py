"""A folder whose contract is measured in a blink and leaves the processor to others: for what happens around a run."""

from __future__ import annotations

from pathlib import Path

from command_line import PAUSING, QUICK_CONTRACT


def write_brief(folder: Path, restarts: int = 2) -> Path:
    """The quick contract with pauses in place of spins, half as long; the folder."""
    text = QUICK_CONTRACT.replace("restarts: 2", f"restarts: {restarts}")
    (folder / "spin.yaml").write_text(text.replace("400 ms", "200 ms").replace("600 ms", "300 ms"))
    (folder / "spinning.py").write_text(PAUSING)
    return folder
