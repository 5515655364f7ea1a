"""Functions of the seventh set whose time goes on the host or on the link: looks, loops, copies and work in Python.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gpu_live_cases import DEVICE, size, tensor

SINGLE = torch.float32

# --- many small kernels -----------------------------------------------------------------------------------------------


class Crossed:
    """A model of clicks that crosses its features: a small kernel or two for each pair of them."""

    def setup(self) -> None:
        """What each feature of each visit says, and all pairs of features."""
        features = size(26, 5)
        self.x = tensor(size(4096, 8), features, size(64, 8))
        self.first, self.second = torch.triu_indices(features, features, 1, device=DEVICE)

    def __call__(self) -> None:
        """Hundreds of pairs, one after the other."""
        pairs = combinations(self.x.unbind(1), 2)
        self.y = torch.stack([(one * other).sum(1) for one, other in pairs], 1)

    def fixed(self) -> None:
        """All pairs in one product."""
        self.y = (self.x @ self.x.transpose(1, 2))[:, self.first, self.second]


# --- the host asks ----------------------------------------------------------------------------------------------------


class Accepted:
    """Chains of Metropolis, one after the other: Python decides whether each move is taken."""

    def setup(self) -> None:
        """Examples with answers, where the chains begin, all moves to try, and the luck of each."""
        width, chains, moves = size(64, 6), size(32, 4), size(8, 5)
        self.examples = tensor(size(4096, 32), width, dtype=SINGLE)
        self.answers = tensor(len(self.examples), dtype=SINGLE).sign()
        self.places = tensor(chains, width, dtype=SINGLE) / math.sqrt(width)
        self.moves = tensor(moves, chains, width, dtype=SINGLE) * 0.05
        self.luck = torch.rand(moves, chains, device=DEVICE).log()

    def _likely(self, places: Any) -> Any:
        return functional.logsigmoid((places @ self.examples.T) * self.answers).sum(-1)

    def __call__(self) -> None:
        """The host reads a number for each move of each chain."""
        ends = []
        for chain, start in enumerate(self.places):
            place, likely = start, self._likely(start)
            for moves, luck in zip(self.moves, self.luck, strict=True):
                tried = place + moves[chain]
                then = self._likely(tried)
                if then - likely > luck[chain]:
                    place, likely = tried, then
            ends.append(place)
        self.y = torch.stack(ends)

    def fixed(self) -> None:
        """All chains at once, and the device decides."""
        places, likely = self.places, self._likely(self.places)
        for moves, luck in zip(self.moves, self.luck, strict=True):
            tried = places + moves
            then = self._likely(tried)
            taken = then - likely > luck
            places = torch.where(taken[:, None], tried, places)
            likely = torch.where(taken, then, likely)
        self.y = places


# --- copies over the link ---------------------------------------------------------------------------------------------


class Grounded:
    """A model of the weather that has the heights, coasts and soils of the earth sent over for every step."""

    def setup(self) -> None:
        """The weather, the ground on the host and where it might have stayed, and a layer over both."""
        grid = size(1440, 6), size(2880, 8)
        weather, ground, wide = size(16, 3), size(12, 2), size(32, 4)
        self.x, self.kept = (tensor(1, count, *grid, dtype=SINGLE) for count in (weather, ground))
        self.ground = self.kept.cpu()
        self.kernel = tensor(wide, weather + ground, 1, 1, dtype=SINGLE) / math.sqrt(weather + ground)

    def _next(self, ground: Any) -> None:
        self.y = functional.conv2d(torch.cat([self.x, ground], 1), self.kernel)

    def __call__(self) -> None:
        """It has not changed since."""
        self._next(self.ground.to(DEVICE))

    def fixed(self) -> None:
        """It stays where it is needed."""
        self._next(self.kept)


# --- work of the host -------------------------------------------------------------------------------------------------


class Bonded:
    """Molecules put together into one graph by Python, bond by bond, before the network passes its messages."""

    def setup(self) -> None:
        """Molecules as rings of atoms with a few more bonds, as lists and as arrays; atoms, and layers."""
        draw = np.random.default_rng(7)
        self.atoms = draw.integers(size(16, 4), size(32, 7), size(512, 4))
        self.arrays = []
        for atoms in self.atoms:
            ring = np.stack([np.arange(atoms), (np.arange(atoms) + 1) % atoms], 1)
            bonds = np.concatenate([ring, draw.integers(0, atoms, (3, 2))])
            self.arrays.append(np.concatenate([bonds, bonds[:, ::-1]]))
        self.lists = [bonds.tolist() for bonds in self.arrays]
        width = size(128, 8)
        self.x = tensor(int(self.atoms.sum()), width, dtype=SINGLE)
        self.layers = [tensor(width, width, dtype=SINGLE) / math.sqrt(2 * width) for _ in range(3)]

    def _passed(self, bonds: Any) -> None:
        x, (ends, starts) = self.x, bonds.T
        for layer in self.layers:
            x = torch.relu_(x.index_add(0, ends, (x @ layer)[starts], alpha=0.5))
        self.y = x

    def __call__(self) -> None:
        """A pair of numbers at a time."""
        bonds, before = [], 0
        for atoms, pairs in zip(self.atoms.tolist(), self.lists, strict=True):
            bonds.extend([one + before, other + before] for one, other in pairs)
            before += atoms
        self._passed(torch.tensor(bonds, device=DEVICE))

    def fixed(self) -> None:
        """All at once by NumPy."""
        before = np.repeat(np.cumsum(self.atoms) - self.atoms, [len(bonds) for bonds in self.arrays])
        bonds = np.concatenate(self.arrays) + before[:, None]
        self._passed(torch.from_numpy(bonds).to(DEVICE))


crossed, accepted, grounded, bonded = Crossed(), Accepted(), Grounded(), Bonded()
