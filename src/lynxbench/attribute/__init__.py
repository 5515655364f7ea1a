"""Profiler traces and resource counts to exclusive time by category, and a verdict with layer and owner."""
