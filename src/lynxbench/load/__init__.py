"""Drivers: what issues the work and stamps it."""
