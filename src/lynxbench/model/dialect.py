"""The dialects of the OpenAI protocol, apart from what a contract says of servers: clients import no more than this."""

from enum import StrEnum


class Dialect(StrEnum):
    """Whose reading of the OpenAI protocol the server follows."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TGI = "tgi"
    TEI = "tei"
    """Text Embeddings Inference; its reranking has words of its own."""
    LLAMACPP = "llamacpp"
    OLLAMA = "ollama"
    GENERIC = "generic"

    @property
    def forces_length(self) -> bool:
        """Whether the server can be told to go on past the end-of-text token, so that lengths are the contract's."""
        return self in (Dialect.VLLM, Dialect.SGLANG, Dialect.LLAMACPP)

    @property
    def has_profiler(self) -> bool:
        """Whether the server can be asked to profile itself (/start_profile, /stop_profile)."""
        return self in (Dialect.VLLM, Dialect.SGLANG)

    @property
    def bypasses_cache(self) -> bool:
        """Whether a request can ask not to be answered from the prefix cache."""
        return self in (Dialect.VLLM, Dialect.LLAMACPP)
