"""The ground floor: profiler traces, resource records and sampled counters to plain columns."""
