"""The pictures of a trace: steps, the worst gap, the roofline."""
