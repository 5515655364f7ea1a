"""Factorial designs over layers and bounded optimisation: definitions, searches, analyses, and their order."""
