"""Scores batches of numbers."""
