"""Which language an endpoint that generates or embeds answers in."""

from lynxbench.engines.embeddings import EmbeddingsLanguage
from lynxbench.engines.messages import MessagesLanguage
from lynxbench.engines.openai import Endpoint, OpenAiLanguage
from lynxbench.engines.response_events import ResponsesLanguage
from lynxbench.load.response_reading import Language


def language_of(endpoint: Endpoint, *, texts: int = 1) -> Language:
    """The reader's maker for that endpoint; `texts` to be embedded are in every request."""
    if endpoint is Endpoint.EMBEDDINGS:
        return EmbeddingsLanguage(texts)
    if endpoint is Endpoint.RESPONSES:
        return ResponsesLanguage()
    return MessagesLanguage() if endpoint is Endpoint.MESSAGES else OpenAiLanguage()
