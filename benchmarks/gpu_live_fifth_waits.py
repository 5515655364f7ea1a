"""Functions of the fifth set whose time goes on the host or on the link: looks, loops, copies and work in NumPy.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gpu_live_cases import DEVICE, size, tensor

# --- the host asks ----------------------------------------------------------------------------------------------------


class Speculated:
    """Words of a small model checked by a large one: the host looks at them one by one until one is turned down."""

    def setup(self) -> None:
        """Hidden states at the drafted places, the large model, the drafts with their shares, and the dice."""
        self.rows, self.drafts, width, words = size(4, 3), size(8, 4), size(8192, 16), size(64_000, 40)
        self.x = tensor(self.rows * self.drafts, width)
        self.layers = [tensor(width, width) / math.sqrt(width) for _ in range(size(16, 2))]
        self.head = tensor(width, words) / math.sqrt(width)
        self.draft = (torch.randn(self.rows, self.drafts, words, device=DEVICE) * 0.3).softmax(-1)
        self.said = torch.randint(0, words, (self.rows, self.drafts), device=DEVICE)
        self.dice = torch.rand(self.rows, self.drafts, device=DEVICE)

    def _shares(self) -> Any:
        x = self.x
        for weight in self.layers:
            x = torch.relu(x @ weight)
        return (x @ self.head).unflatten(0, (self.rows, self.drafts)).float().softmax(-1)

    def __call__(self) -> None:
        """Every look waits for the device, several times."""
        shares, kept = self._shares(), []
        for row in range(self.rows):
            count = 0
            for place in range(self.drafts):
                word = self.said[row, place]
                if self.dice[row, place] >= shares[row, place, word] / self.draft[row, place, word]:
                    break
                count += 1
            kept.append(count)
        self.y = torch.tensor(kept)

    def fixed(self) -> None:
        """All compared at once, and counted up to the first that fails."""
        shares, words = self._shares(), self.said.unsqueeze(-1)
        ratios = shares.gather(-1, words) / self.draft.gather(-1, words)
        good = self.dice < ratios.squeeze(-1)
        self.y = good.long().cumprod(1).sum(1).cpu()


# --- many small kernels -----------------------------------------------------------------------------------------------


class Forest:
    """Boosted trees walked one after the other, level by level."""

    def setup(self) -> None:
        """Samples; for every inner node a feature and a threshold, for every leaf a number."""
        trees, self.depth, features = size(100, 3), size(6, 3), size(64, 5)
        self.inner = 2**self.depth - 1
        self.x = torch.randn(size(32_768, 8), features, device=DEVICE)
        self.feature = torch.randint(0, features, (trees, self.inner), device=DEVICE)
        self.threshold = torch.randn(trees, self.inner, device=DEVICE)
        self.leaf = torch.randn(trees, self.inner + 1, device=DEVICE)

    def __call__(self) -> None:
        """Half a dozen kernels a level, for every tree."""
        total = torch.zeros(len(self.x), device=DEVICE)
        for feature, threshold, leaf in zip(self.feature, self.threshold, self.leaf, strict=True):
            node = torch.zeros(len(self.x), dtype=torch.long, device=DEVICE)
            for _ in range(self.depth):
                seen = self.x.gather(1, feature[node].unsqueeze(1)).squeeze(1)
                node = 2 * node + 1 + (seen > threshold[node])
            total = total + leaf[node - self.inner]
        self.y = total

    def fixed(self) -> None:
        """All trees at once."""
        trees = torch.arange(len(self.feature), device=DEVICE)
        feature, threshold, leaf = self.feature.flatten(), self.threshold.flatten(), self.leaf.flatten()
        starts = trees * self.inner
        node = torch.zeros(len(self.x), len(trees), dtype=torch.long, device=DEVICE)
        for _ in range(self.depth):
            at = node + starts
            node = 2 * node + 1 + (self.x.gather(1, feature[at]) > threshold[at])
        self.y = leaf[node - self.inner + trees * (self.inner + 1)].sum(1)


class Solved:
    """Many small linear systems, as a tracker of many objects has them, solved one by one."""

    def setup(self) -> None:
        """Systems that are well behaved."""
        count, side = size(192, 4), size(24, 5)
        noise = torch.randn(count, side, side, device=DEVICE) / side
        self.a = noise @ noise.transpose(1, 2) + torch.eye(side, device=DEVICE)
        self.b = torch.randn(count, side, 1, device=DEVICE)

    def __call__(self) -> None:
        """Each with its own kernels, and its own look whether it went well."""
        self.y = torch.stack([torch.linalg.solve(a, b) for a, b in zip(self.a, self.b, strict=True)])

    def fixed(self) -> None:
        """In one call."""
        self.y = torch.linalg.solve(self.a, self.b)


# --- copies over the link ---------------------------------------------------------------------------------------------


class Excluded:
    """A recommender that sends a mask of all users and all items, to leave out the few that were seen."""

    best = 20

    def setup(self) -> None:
        """Users, items and the layers they go through, and what was seen, as a mask and as numbers."""
        users, items, width, seen = size(512, 4), size(131_072, 64), size(2048, 16), size(100, 5)
        self.users, self.items = tensor(users, width), tensor(items, width)
        self.layers = [tensor(width, width) * math.sqrt(2 / width) for _ in range(size(4, 2))]
        self.seen = torch.randint(0, items, (users, seen))
        self.mask = torch.zeros(users, items, dtype=torch.bool).scatter_(1, self.seen, True)
        if DEVICE == "cuda":
            self.seen = self.seen.pin_memory()

    def _scores(self) -> Any:
        items = self.items
        for weight in self.layers:
            items = torch.relu(items @ weight)
        return self.users @ items.T

    def __call__(self) -> None:
        """A byte for each pair."""
        scores = self._scores().masked_fill_(self.mask.to(DEVICE), -math.inf)
        self.y = scores.topk(self.best).values

    def fixed(self) -> None:
        """A number for each that was seen."""
        seen = self.seen.to(DEVICE, non_blocking=True)
        self.y = self._scores().scatter_(1, seen, -math.inf).topk(self.best).values


# --- work of the host -------------------------------------------------------------------------------------------------


class Recalled:
    """How many of the best twenty items a user liked, by NumPy, user after user."""

    best = 20

    def setup(self) -> None:
        """Users and items as directions, and what was liked, here and there."""
        users, items, width = size(48, 3), size(16_384, 40), size(256, 8)
        self.users, self.items = (tensor(count, width, dtype=torch.float32) for count in (users, items))
        self.there = torch.rand(users, items, device=DEVICE) < 0.3
        self.here = self.there.cpu().numpy()

    def __call__(self) -> None:
        """All scores leave, and all are sorted."""
        scores = (self.users @ self.items.T).cpu().numpy()
        shares = [liked[np.argsort(-row)[: self.best]].mean() for row, liked in zip(scores, self.here, strict=True)]
        self.y = torch.tensor(np.array(shares))

    def fixed(self) -> None:
        """The best are found where the scores are."""
        best = (self.users @ self.items.T).topk(self.best).indices
        self.y = self.there.gather(1, best).double().mean(1).cpu()


class Rolled:
    """A policy on the device tried out in a world that NumPy simulates: every moment goes there and back."""

    moment, pull, drag = 0.02, 9.8, 0.2

    def setup(self) -> None:
        """Arms of many robots, and a policy of two layers."""
        self.moments, robots, joints, width = size(32, 4), size(8192, 4), size(12, 3), size(256, 8)
        self.start = [np.random.default_rng(seed).normal(size=(robots, joints)).astype(np.float32) for seed in (1, 2)]
        self.there = [torch.from_numpy(part).to(DEVICE) for part in self.start]
        self.first = torch.randn(3 * joints, width, device=DEVICE) / math.sqrt(3 * joints)
        self.second = torch.randn(width, joints, device=DEVICE) / math.sqrt(width)

    def _policy(self, seen: Any) -> Any:
        return torch.tanh(torch.relu(seen @ self.first) @ self.second)

    def __call__(self) -> None:
        """The device waits for the world, and the world for the device."""
        angle, speed = self.start
        for _ in range(self.moments):
            seen = np.concatenate((np.sin(angle), np.cos(angle), speed), axis=1)
            torque = self._policy(torch.from_numpy(seen).to(DEVICE)).cpu().numpy()
            speed = speed + self.moment * (torque - self.pull * np.sin(angle) - self.drag * speed)
            angle = angle + self.moment * speed
        self.y = torch.from_numpy(angle)

    def fixed(self) -> None:
        """The world beside the policy."""
        angle, speed = self.there
        for _ in range(self.moments):
            sines = torch.sin(angle)
            torque = self._policy(torch.cat((sines, torch.cos(angle), speed), 1))
            speed = speed + self.moment * (torque - self.pull * sines - self.drag * speed)
            angle = angle + self.moment * speed
        self.y = angle.cpu()


speculated, forest, solved = Speculated(), Forest(), Solved()
excluded, recalled, rolled = Excluded(), Recalled(), Rolled()
