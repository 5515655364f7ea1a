"""lynxbench: the cross-team measurement contract for AI performance."""

__version__ = "0.1.0"
