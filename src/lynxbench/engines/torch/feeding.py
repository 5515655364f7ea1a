"""A step's inputs: made on the host and brought to the device. How that happens is what interventions change."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lynxbench.model.interventions import Change

Batch = dict[str, torch.Tensor]

STAGED_BATCHES = 64
"""Prestaged inputs rotate through so many batches: enough that no cache holds them all, little enough to keep."""


class Feed:
    """Hands out the inputs of a step; as a plain program does it unless an intervention says otherwise."""

    def __init__(self, make: Callable[[int], Batch], device: torch.device) -> None:
        self._make, self._device = make, device
        self._staged: list[Batch] = []
        self._kept: dict[tuple[torch.Size, ...], Batch] = {}
        self.at: Callable[[int], Batch] = self._plain

    def change(self, change: Change) -> None:
        """Feed differently from now on; changes that are not about inputs change nothing."""
        if change is Change.PRESTAGE:
            self._staged = [self._plain(index) for index in range(STAGED_BATCHES)]
            self.at = self._prestaged
        elif change is Change.PIN:
            self.at = self._pinned
        elif change is Change.NO_TRANSFER:
            self.at = self._resident

    def _plain(self, index: int) -> Batch:
        return {name: tensor.to(self._device) for name, tensor in self._make(index).items()}

    def _prestaged(self, index: int) -> Batch:
        return self._staged[index % STAGED_BATCHES]

    def _pinned(self, index: int) -> Batch:
        made = self._make(index)
        return {name: tensor.pin_memory().to(self._device, non_blocking=True) for name, tensor in made.items()}

    def _resident(self, index: int) -> Batch:
        """The inputs are made as ever, and a batch of their shape that the device already has is used."""
        made = self._make(index)
        shape = tuple(tensor.shape for tensor in made.values())
        kept = self._kept.get(shape)
        if kept is None:
            kept = self._kept[shape] = {name: tensor.to(self._device) for name, tensor in made.items()}
        return kept
