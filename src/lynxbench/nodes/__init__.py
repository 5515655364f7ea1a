"""The same contract on many machines: what the driver keeps, what a node does, what the whole says."""
