"""Profiler traces and counts to a verdict with layer and owner: read, tile, judge, say; `attributing` is the door."""
