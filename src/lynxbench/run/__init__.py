"""The order of a run, in-process and served: fresh processes, what their samples come to, proof by intervention."""
