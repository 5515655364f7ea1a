"""llama.cpp's server, run by the Python of its own environment: `python llamacpp.py MODEL.gguf SLOTS`.

It prints its address, serves until its standard input closes, and so never outlives the tests.
"""

import os
import sys

import xllamacpp


def main(model: str, slots: int) -> None:
    """Serve the model on a free port of the loopback address."""
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = slots
    params.n_ctx = 1024 * slots
    params.endpoint_metrics = True
    # One core is left to the client: llama.cpp's threads wait for each other at every layer, spinning, and lose most of
    # their speed as soon as one of them has to share its core.
    threads = max(1, len(os.sched_getaffinity(0)) - 1)
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # the library's own shutdown waits for connections that clients keep open


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
