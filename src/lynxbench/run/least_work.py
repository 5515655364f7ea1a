"""The least work of a step from its contract: weights read once, the cache of its context, the products' arithmetic.

A recorded graph shows kernels and no operands, so the trace of a replayed step cannot say how near the ceiling it ran.
The workload can: whatever the kernels, one token more reads every weight of the products once.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from lynxbench.model.attribution import StepWork
from lynxbench.model.contract import Contract
from lynxbench.model.workload import PresetModel, Task
from lynxbench.workload.lengths import typical
from lynxbench.workload.presets import PRESETS, ModelFamily

FORMAT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Of weights that were not quantised, and of the cache."""
QUANTISED_BYTES = 1
"""Every quantised format so far has eight bits."""


def least_work(contract: Contract, facts: Mapping[str, JsonValue]) -> StepWork | None:
    """For prefill and decode of a named decoder shape; None where the workload does not say what a step must do."""
    workload = contract.workload
    if workload.task not in (Task.PREFILL, Task.DECODE) or not isinstance(workload.model, PresetModel):
        return None
    preset = PRESETS.get(workload.model.name)
    each = FORMAT_BYTES.get(str(facts.get("application.weights_dtype")))
    parameters, quantised = facts.get("application.parameters"), facts.get("application.quantised_parameters")
    if preset is None or preset.family is not ModelFamily.DECODER or each is None or workload.input_tokens is None:
        return None
    if not isinstance(parameters, int) or not isinstance(quantised, int):
        return None
    config = preset.config
    width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    table = int(config["vocab_size"]) * width
    looked_up = 0 if config.get("tie_word_embeddings") else table  # rows are gathered, the table is not read
    multiplied = parameters - looked_up
    weights = quantised * QUANTISED_BYTES + (multiplied - quantised) * each
    tokens, layers = int(typical(workload.input_tokens)), workload.model.layers or int(config["num_hidden_layers"])
    if workload.task is Task.PREFILL:
        # One position alone goes through the output head.
        operations = 2.0 * workload.batch * tokens * (multiplied - table)
        return StepWork(float(weights), operations, f"weights once, products of {workload.batch * tokens} tokens")
    head = int(config.get("head_dim") or width // heads)
    cached = workload.batch * tokens * layers * 2 * int(config["num_key_value_heads"]) * head * each
    how = f"weights once, keys and values of {workload.batch} × {tokens} tokens"
    return StepWork(float(weights + cached), 2.0 * workload.batch * multiplied, how)
