"""Frozen values shared by all rooms. Pure: no I/O, no clock."""
