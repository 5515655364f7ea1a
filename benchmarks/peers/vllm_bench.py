"""vLLM's serving benchmark, started by the Python of its own environment.

The package for CPUs carries another name than `vllm`, which the `vllm` command looks for and does not find; the
benchmark itself is called with the command's own arguments.
"""

from __future__ import annotations

import argparse


def main() -> None:
    """`vllm bench serve`, by its parser and its entry point."""
    from vllm.benchmarks.serve import add_cli_args
    from vllm.benchmarks.serve import main as serve

    parser = argparse.ArgumentParser()
    add_cli_args(parser)
    serve(parser.parse_args())


if __name__ == "__main__":
    main()
