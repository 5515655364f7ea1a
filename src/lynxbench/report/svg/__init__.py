"""Plots as inline SVG, written by small functions of our own: nothing to download, nothing to execute."""
