"""Triton with two models, run by the Python of its own environment: `python triton.py HTTP METRICS GRPC` (ports).

The model `double` returns twice its input after two milliseconds a batch; `count` answers as often as its input says,
two milliseconds apart. It prints its address and serves until its standard input closes.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig

BATCH_S = 0.002


@batch
def double(values: np.ndarray) -> dict[str, np.ndarray]:
    """Twice the input; the wait stands for work, so that requests meet in the queue."""
    time.sleep(BATCH_S)
    return {"doubled": values * np.float32(2)}


def count(requests: list) -> Iterator[list[dict[str, np.ndarray]]]:
    """One number after the other, each in an answer of its own."""
    (request,) = requests
    for number in range(int(request.data["until"][0])):
        time.sleep(BATCH_S)
        yield [{"number": np.array([number], dtype=np.int32)}]


def main(http_port: int, metrics_port: int, grpc_port: int) -> None:
    """Serve with statistics open to everyone, which PyTriton closes by default."""
    # Triton's own log goes to standard output too, in pieces of lines: the address must not land in the middle of one.
    address = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    config = TritonConfig(
        http_address="127.0.0.1",
        http_port=http_port,
        grpc_address="127.0.0.1",
        grpc_port=grpc_port,
        metrics_port=metrics_port,
        allow_gpu_metrics=False,
        exit_timeout_secs=1,
    )
    with Triton(config=config, security_config=TritonSecurityConfig(restricted_endpoints=[])) as triton:
        triton.bind(
            model_name="double",
            infer_func=double,
            inputs=[Tensor(name="values", dtype=np.float32, shape=(-1,))],
            outputs=[Tensor(name="doubled", dtype=np.float32, shape=(-1,))],
            config=ModelConfig(max_batch_size=16, batcher=DynamicBatcher(max_queue_delay_microseconds=500)),
        )
        triton.bind(
            model_name="count",
            infer_func=count,
            inputs=[Tensor(name="until", dtype=np.int32, shape=(1,))],
            outputs=[Tensor(name="number", dtype=np.int32, shape=(1,))],
            config=ModelConfig(batching=False, decoupled=True),
        )
        triton.run()
        print(f"http://127.0.0.1:{http_port}", file=address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main(*map(int, sys.argv[1:4]))
