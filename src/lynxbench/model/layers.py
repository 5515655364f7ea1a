"""The nine layers of an AI executor, and who usually owns each."""

from enum import StrEnum


class Layer(StrEnum):
    """From application code to demand. A contract may rename owners, never layers."""

    APPLICATION = "application"
    SERVING = "serving"
    RUNTIME = "runtime"
    FRAMEWORK = "framework"
    SYSTEM = "system"
    ACCELERATOR = "accelerator"
    PROCUREMENT = "procurement"
    FACILITY = "facility"
    DEMAND = "demand"


DEFAULT_OWNERS: dict[Layer, str] = {
    Layer.APPLICATION: "ML research",
    Layer.SERVING: "ML platform",
    Layer.RUNTIME: "ML platform engineering",
    Layer.FRAMEWORK: "platform SRE",
    Layer.SYSTEM: "infrastructure SRE",
    Layer.ACCELERATOR: "hardware engineering",
    Layer.PROCUREMENT: "procurement",
    Layer.FACILITY: "facilities",
    Layer.DEMAND: "product",
}

WHAT_IT_HOLDS: dict[Layer, str] = {
    Layer.APPLICATION: "code and model architecture",
    Layer.SERVING: "serving framework and batching",
    Layer.RUNTIME: "inference runtime and kernel libraries",
    Layer.FRAMEWORK: "framework and dependency versions",
    Layer.SYSTEM: "operating system, driver, system libraries",
    Layer.ACCELERATOR: "hardware and its topology",
    Layer.PROCUREMENT: "what was bought and for how much",
    Layer.FACILITY: "cooling and power",
    Layer.DEMAND: "workload demand and service objective",
}
