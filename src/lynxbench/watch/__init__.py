"""Contracts on a timetable: schedules, agents, baselines, regressions and the notices to owners."""
