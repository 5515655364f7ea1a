"""A machine in words: the device that did the work and what drives it, instead of the hash of its configuration."""

import re
from collections.abc import Callable

from pydantic import JsonValue

from lynxbench.model.layers import Layer

_NOISE = re.compile(
    r"\((?:r|tm|c)\)|\b(?:nvidia|amd|corporation|processor|cpu)\b|@\s*[\d.]+\s*ghz|\b\d+-core\b", re.IGNORECASE
)
MOST_LETTERS = 60
"""A name is somebody's text: it is cut before it fills a page."""


def machine_words(value: Callable[[Layer, str], JsonValue]) -> str:
    """`H200 · driver 580`, `8× H100 · driver 570`, `Intel Xeon · 16 cores`; empty where the device is not known."""
    name, gpus = value(Layer.ACCELERATOR, "name"), value(Layer.ACCELERATOR, "gpu_name")
    boards = [board for board in gpus if isinstance(board, str)] if isinstance(gpus, list) else []
    if isinstance(name, str) and name not in boards:
        boards = [name]
    if boards:
        kinds = list(dict.fromkeys(boards))
        many = f"{len(boards)}× " if len(boards) > 1 and len(kinds) == 1 else ""
        driver = value(Layer.SYSTEM, "nvidia_driver")
        drives = f" · driver {driver.partition('.')[0]}" if isinstance(driver, str) else ""
        return (many + " + ".join(map(_plain, kinds)))[:MOST_LETTERS] + drives[:MOST_LETTERS]
    cpu, cores = value(Layer.ACCELERATOR, "cpu_model"), value(Layer.ACCELERATOR, "cpu_cores")
    if not isinstance(cpu, str) or not _plain(cpu):
        return ""
    return _plain(cpu)[:MOST_LETTERS] + (f" · {cores} cores" if isinstance(cores, int) else "")


def _plain(name: str) -> str:
    return " ".join(_NOISE.sub(" ", name).split())
