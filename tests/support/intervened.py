"""A small contract whose verdict is tested by interventions, and a run that nobody looks at."""

from __future__ import annotations

from typing import cast

from lynxbench.run.run_outcome import Progress

CONTRACT = {
    "lynxbench": 1,
    "name": "tested",
    "question": "Does the verdict hold?",
    "regime": "latency",
    "workload": {
        "task": "embed",
        "model": {"source": "preset", "name": "minilm-l6", "layers": 1},
        "precisions": ["fp32"],
        "input_tokens": {"distribution": "fixed", "value": 8},
    },
    "engine": {"name": "torch", "device": "cpu", "threads": 1},
    "protocol": {
        "restarts": 1,
        "min_duration": "400 ms",
        "limit": "600 ms",
        "steady": {"drift": "20 %", "window": "50 ms"},
        "foreign_load": "100 %",
    },
}


class _Unseen:
    def __getattr__(self, name: str) -> object:
        return lambda *arguments, **named: None


SILENT = cast("Progress", _Unseen())
"""Progress that nobody looks at."""
