"""When the host waits for its device: at the end of every step, or, where that is taken away, a few steps later."""

from __future__ import annotations

from collections import deque

import torch

from lynxbench.engines.torch.device import synchronise

IN_FLIGHT = 3
"""Steps under way at most once synchronisation is removed: the queue stays short, and throughput is the device's."""


class Pace:
    """Ends a step. The work is finished when it returns, unless the engine's synchronisation was removed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._under_way: deque[torch.cuda.Event] = deque()
        self._handed_over = False
        self.waits = True

    def stop_waiting(self) -> None:
        """Remove the synchronisation at the end of each step (CUDA)."""
        self.waits = False

    def hand_over(self) -> None:
        """Leave the end of a step to a clock of the device: nothing is waited for here."""
        self.waits, self._handed_over = False, True

    def end_step(self) -> None:
        """Wait for the device, or for the step that began a few steps ago."""
        if self._handed_over:
            return
        if self.waits:
            synchronise(self._device)
            return
        done = torch.cuda.Event()
        done.record()
        self._under_way.append(done)
        if len(self._under_way) > IN_FLIGHT:
            self._under_way.popleft().synchronize()
