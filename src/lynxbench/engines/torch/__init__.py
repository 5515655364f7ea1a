"""PyTorch in this process: Hugging Face models at a stated precision. torch is imported when a job asks for it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from lynxbench.model.job import Job, Skip

if TYPE_CHECKING:
    from lynxbench.engines.torch.torch_session import TorchSession

NEEDED = ("torch", "transformers", "tokenizers", "safetensors")


class TorchAdapter:
    """Opens sessions that run PyTorch models."""

    name = "torch"

    def available(self) -> str | None:
        """None when torch and transformers are installed; otherwise how to install them."""
        missing = [package for package in NEEDED if find_spec(package) is None]
        return f"{', '.join(missing)} missing; pip install 'lynxbench[torch]'" if missing else None

    def estimate(self, job: Job) -> Skip | None:
        """A reason not to run this precision here, found in a few seconds without loading the model."""
        from lynxbench.engines.torch.estimate import estimate

        return estimate(job)

    def open(self, job: Job) -> TorchSession:
        """Load the model at the job's precision."""
        from lynxbench.engines.torch.torch_session import open_session

        return open_session(job)
