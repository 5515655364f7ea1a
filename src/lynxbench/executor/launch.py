"""How this process was launched among others: the ranks that a run spans, by the variables torchrun and its kin set."""

from __future__ import annotations

import json

from lynxbench.executor.host import Host, Probe
from lynxbench.model.executor import Field, measured, unreadable
from lynxbench.model.layers import Layer

PEERS_VARIABLE = "LYNXBENCH_PEER_EXECUTORS"
"""Executor ids of the other ranks' machines, as a JSON list: their difference is a difference of the whole."""


def read_ranks(host: Host) -> dict[str, Field]:
    """World size and ranks a node; nothing for a process that is alone, whose ids stay what they were."""
    world = host.environ.get("WORLD_SIZE", "")
    if not world.isdigit() or int(world) < 2:
        return {}
    found = {"world_size": measured(int(world), "environment WORLD_SIZE")}
    local = host.environ.get("LOCAL_WORLD_SIZE", "")
    found["local_world_size"] = (
        measured(int(local), "environment LOCAL_WORLD_SIZE")
        if local.isdigit()
        else unreadable("not present: LOCAL_WORLD_SIZE")
    )
    peers = host.environ.get(PEERS_VARIABLE)
    if peers:
        found["peer_executors"] = measured(sorted(json.loads(peers)), "captured on every rank's node")
    return found


PROBES: tuple[Probe, ...] = (Probe(Layer.SYSTEM, read_ranks, ("world_size",)),)
