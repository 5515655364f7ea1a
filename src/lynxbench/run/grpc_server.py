"""What a server says of itself over gRPC, as fields of the executor."""

from __future__ import annotations

from pydantic import JsonValue

from lynxbench.engines.grpc_asking import named_model, parse_metadata, parse_model, statistics_document, tell
from lynxbench.executor.host import exact_json
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.serving import KserveEngine


def tell_over_grpc(engine: KserveEngine, model: str) -> tuple[dict[str, Field], bytes | None]:
    """Its metadata and its model's, and Triton's statistics where it has them."""
    named = named_model(model, engine.version)
    fields: dict[str, Field] = {}
    for name, method, request, parse in (
        ("server_metadata", "ServerMetadata", b"", parse_metadata),
        ("server_model", "ModelMetadata", named, parse_model),
    ):
        said = tell(engine, method, request)
        problem, document = (said, None) if isinstance(said, str) else _parsed(parse, said, method)
        source = f"gRPC {method}"
        fields[name] = unreadable(problem, Tier.STATE) if document is None else measured(exact_json(document), source)
    said = tell(engine, "ModelStatistics", named)
    if isinstance(said, str):
        return fields, None
    try:
        return fields, statistics_document(said)
    except ValueError:
        return fields, None


def _parsed(parse: object, said: bytes, method: str) -> tuple[str, JsonValue | None]:
    try:
        return "", parse(said)  # type: ignore[operator]
    except ValueError as error:
        return f"{method}: {error}", None
