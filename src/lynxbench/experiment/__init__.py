"""Factorial designs over layers and bounded optimisation: definitions, searches, analyses, and their order.

`experiment_run.py` and `tuning_run.py` are the orders; `visiting.py` takes one visit, `cells.py`, `searching.py`,
`walking.py` and `analysing.py` are pure and say what comes next and what it means.
"""
