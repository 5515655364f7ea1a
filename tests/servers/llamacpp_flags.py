"""llama.cpp's server with some launch arguments: `python llamacpp_flags.py --model FILE --port N --parallel N …`.

Its Python package has no command of its own; the names are those of `llama-server`. Serves until it is told to end.
"""

import argparse
import os
import signal

import xllamacpp


def main() -> None:
    """Serve in the foreground."""
    options = argparse.ArgumentParser(allow_abbrev=False)
    options.add_argument("--model", required=True)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--parallel", type=int, default=1)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--ubatch-size", type=int, default=512)
    asked = options.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path, params.port = asked.model, asked.port
    params.n_parallel, params.n_ctx, params.n_ubatch = asked.parallel, 1024 * asked.parallel, asked.ubatch_size
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked.threads
    params.endpoint_metrics = True
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # its own shutdown waits for connections that are kept open
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
