"""Which language an endpoint that generates or embeds answers in."""

from lynxbench.engines.messages import MessagesLanguage
from lynxbench.engines.openai import Endpoint, OpenAiLanguage
from lynxbench.engines.response_events import ResponsesLanguage
from lynxbench.load.response_reading import Language


def language_of(endpoint: Endpoint) -> Language:
    """The reader's maker for that endpoint."""
    if endpoint is Endpoint.RESPONSES:
        return ResponsesLanguage()
    return MessagesLanguage() if endpoint is Endpoint.MESSAGES else OpenAiLanguage()
