"""Empties a server's prefix cache where it can be asked to: before each run and between the probes of a search."""

from urllib.parse import urlsplit

from lynxbench.engines.served import api_key_headers
from lynxbench.https import request
from lynxbench.model.dialect import Dialect
from lynxbench.model.serving import OpenAiEngine

PATHS = {Dialect.VLLM: "/reset_prefix_cache", Dialect.SGLANG: "/flush_cache"}
"""By dialect; vLLM has it with VLLM_SERVER_DEV_MODE=1 alone."""
PATIENCE_S = 10.0


def reset_cache(engine: OpenAiEngine) -> str:
    """Ask once; empty where it was done, else why not."""
    path = PATHS.get(engine.dialect)
    if path is None:
        able = ", ".join(PATHS)
        return f"dialect {engine.dialect} has no request that empties its cache (these have: {able})"
    parts = urlsplit(engine.url)
    root = parts.path.rstrip("/").removesuffix("/v1")
    try:
        answer = request(
            "POST",
            f"{parts.scheme}://{parts.netloc}{root}{path}",
            headers=api_key_headers(engine),
            timeout_s=PATIENCE_S,
            ca_file=engine.ca_file,
            verify=engine.verify_tls,
        )
    except OSError as error:
        return f"POST {path}: {getattr(error, 'strerror', None) or type(error).__name__}"
    if answer.is_good:
        return ""
    hint = "; start vLLM with VLLM_SERVER_DEV_MODE=1" if engine.dialect is Dialect.VLLM and answer.status == 404 else ""
    return f"POST {path}: status {answer.status}{hint}"
