"""The entry of a result, from its document: the figures by which it is listed, and the hash of each layer."""

from lynxbench.model.canonical import content_id
from lynxbench.model.entries import PrecisionSummary, ResultRecorded
from lynxbench.model.executor import Executor, Tier
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result

_WEIGHTS = ("model_sha256", "weights_sha256")
"""Under which names engines state the hash over the model's files."""
_SHA256_DIGITS = 64


def summary_of(result: Result, *, nonce: str, attempts: int) -> ResultRecorded:
    """What the ledger says about a result; everything but nonce and attempts follows from the document."""
    return ResultRecorded(
        result_id=result.result_id,
        run_id=result.run_id,
        nonce=nonce,
        contract_id=result.contract_id,
        contract_name=result.contract.name,
        executor_id=result.executor_id,
        instance_id=result.instance_id,
        layer_ids=layer_ids(result.executor),
        weights=weights_of(result.executor),
        started_at=result.started_at,
        finished_at=result.finished_at,
        validity=result.validity.verdict,
        per_precision=tuple(
            PrecisionSummary(
                precision=figures.precision,
                throughput=figures.throughput,
                run_means=figures.run_means,
                validity=figures.validity.verdict,
                steady=figures.steady.verdict.value if figures.steady is not None else None,
            )
            for figures in result.per_precision
        ),
        attempts=attempts,
        bottleneck=result.attribution.bottleneck if result.attribution is not None else None,
        teams=result.contract.teams,
    )


def layer_ids(executor: Executor) -> dict[Layer, str]:
    """The hash of each layer's configuration: which layer changed shows without opening a document."""
    ids = {}
    for layer in Layer:
        fields = executor.layers.get(layer, {})
        ids[layer] = content_id(
            {name: field.value for name, field in sorted(fields.items()) if field.tier is Tier.CONFIGURATION}
        )
    return ids


def weights_of(executor: Executor) -> str | None:
    """The hash over the model's files, where the engine could read them."""
    for name in _WEIGHTS:
        value = executor.get(Layer.APPLICATION, name)
        if isinstance(value, str) and len(value) == _SHA256_DIGITS:
            return value
    return None
