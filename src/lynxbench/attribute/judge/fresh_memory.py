"""Memory that the operating system hands out anew in each step: pages are mapped and emptied before they are written.

What a program frees in large blocks goes back to the system at once, and the next step asks for it again. The time
shows in whatever writes there first, as if that were slow; the kernel's own account tells whose it is.
"""

from dataclasses import dataclass

from lynxbench.attribute.read.resource_record import ResourceRecord

DEAREST_FAULT_NS = 10_000
"""What a page costs at the most: mapping and emptying one took 3 to 5 µs in a virtual machine. What the system does
beyond that is something else."""
FEWEST_FAULTS = 64
"""A step that meets fewer pages maps no large memory."""


@dataclass(frozen=True, slots=True)
class FreshMemory:
    """What mapping pages took of a usual step."""

    share: float
    faults: float
    """A step."""


def measure_fresh(record: ResourceRecord) -> FreshMemory | None:
    """What the kernel accounted to the steps; None where they mapped little."""
    steps = record.steps
    faults = sum(step.minor_faults for step in steps)
    ran_ns, wall_ns = (sum(getattr(step, name) for step in steps) for name in ("process_cpu_ns", "wall_ns"))
    if faults < FEWEST_FAULTS * len(steps) or ran_ns <= 0 or wall_ns <= 0:
        return None
    spent_ns = min(sum(step.system_ns for step in steps), faults * DEAREST_FAULT_NS, ran_ns)
    return FreshMemory(spent_ns / ran_ns * min(1.0, ran_ns / wall_ns), faults / len(steps))
