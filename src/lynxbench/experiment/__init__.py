"""Factorial designs over layers, and bounded optimisation."""
