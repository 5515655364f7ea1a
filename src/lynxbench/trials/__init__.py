"""Experiments and tuning: the order of their visits, and what they come to."""
