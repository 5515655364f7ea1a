"""Two executors, field by field: which fields count, and the document of them."""

from collections.abc import Sequence

from lynxbench.model.executor import Executor, FieldChange, Tier, difference
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.report.field_words import expand_change


def difference_document(left: Executor, right: Executor, changes: Sequence[FieldChange]) -> dict[str, object]:
    """Two executors, field by field, each with its owner."""
    return {
        "a": {"executor_id": left.executor_id, "instance_id": left.instance_id},
        "b": {"executor_id": right.executor_id, "instance_id": right.instance_id},
        "same": not changes,
        "layers": sorted({change.layer.value for change in changes}),
        "changes": [
            {
                **change.model_dump(mode="json"),
                "owner": DEFAULT_OWNERS[change.layer],
                "items": [step.label for step in expand_change(change)],
            }
            for change in changes
        ],
    }


def compared_fields(left: Executor, right: Executor, *, all_tiers: bool) -> tuple[FieldChange, ...]:
    """Fields that differ; without `all_tiers`, those that make another executor or that people declared."""
    changes = difference(left, right)
    if all_tiers:
        return changes
    # What people declared enters no id, but a difference in it is one that matters to its owner.
    stated = {Layer.PROCUREMENT, Layer.DEMAND}
    return tuple(change for change in changes if change.tier is Tier.CONFIGURATION or change.layer in stated)
