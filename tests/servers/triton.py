"""Triton with one batching model, run by the Python of its own environment: `python triton.py HTTP_PORT METRICS_PORT`.

The model `double` returns twice its input after two milliseconds a batch. It prints its address and serves until its
standard input closes.
"""

import logging
import os
import sys
import time

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


def main(http_port: int, metrics_port: int) -> None:
    """Serve with statistics open to everyone, which PyTriton closes by default."""
    # Triton's own log goes to standard output too, in pieces of lines: the address must not land in the middle of one.
    address = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    config = TritonConfig(
        http_address="127.0.0.1",
        http_port=http_port,
        allow_grpc=False,
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
        triton.run()
        print(f"http://127.0.0.1:{http_port}", file=address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    logging.disable(logging.INFO)
    main(int(sys.argv[1]), int(sys.argv[2]))
