"""Capture of the nine layers that produce a number, field by field; CUDA compatibility; precisions."""
