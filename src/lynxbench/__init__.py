"""lynxbench: the cross-team measurement contract for AI performance."""

import sys

from lynxbench.public_surface import PublicPackage

__version__ = "0.1.0"
__all__ = [
    "AttributedTrace",
    "ComparedResults",
    "Ledger",
    "LynxbenchError",
    "Measurement",
    "SteadyState",
    "Stopwatch",
    "__version__",
    "attribute",
    "benchmark",
    "compare",
    "load",
    "quick",
    "run",
]

sys.modules[__name__].__class__ = PublicPackage
