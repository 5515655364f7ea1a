"""The order of a run, in-process and served: fresh processes, what their samples come to, proof by intervention.

Read `pipeline.py` first: register, prepare, measure, conclude, seal. `inprocess_run.py` and `served_run.py` say what
differs, `attempts.py` starts, watches and reads a fresh process (`worker.py` or `client_work.py`), and `concluding.py`
makes the result of what the folder holds; `verify` calls it again.
"""
