"""Comparability first, then effects with intervals, suspects, histories, changes and stack signals. Pure."""
