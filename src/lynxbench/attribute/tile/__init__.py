"""The second floor: every nanosecond of a step to exactly one row or cause, every second of a request to one phase."""
