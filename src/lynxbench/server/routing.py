"""How routes are declared: each with the right that it needs and the form of its answer, or not at all."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, create_model
from pydantic_core import to_json
from starlette.responses import Response

from lynxbench.server.administration import ChangeAuthor
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server
from lynxbench.visible import visible_json

F = TypeVar("F", bound=Callable[..., Any])


class AnswerModel(BaseModel):
    """An answer of the API: nothing in it that is not named."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class ProblemLine(AnswerModel):
    """What went wrong, in one line."""

    status: int
    message: str
    exit_code: int | None = None
    """In what a command of lynxbench ends for it; None: in none of its own."""


class ApiProblem(AnswerModel):
    """Every answer of the API that is no success."""

    error: ProblemLine


_PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/ApiProblem"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"content": _PROBLEM, "description": "The request cannot be read."},
    401: {"content": _PROBLEM, "description": "Nobody known asks."},
    403: {"content": _PROBLEM, "description": "Whoever asks may not."},
    404: {"content": _PROBLEM, "description": "Not there."},
    409: {"content": _PROBLEM, "description": "It would be unsound, or it is not its turn; the line says which."},
    413: {"content": _PROBLEM, "description": "More was sent than is taken."},
    415: {"content": _PROBLEM, "description": "Not sent as it is."},
    422: {"model": ApiProblem, "description": "A value is wrong, or evidence does not hold."},
    429: {"content": _PROBLEM, "description": "Too many requests."},
}


class Right:
    """The scope that a route asks for, declared on it and asked before anything else of it happens."""

    def __init__(self, scope: AccessScope | None) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> None:
        """Let the request pass, or raise."""
        await request.app.state.door.admit(request, self.scope)


OPEN = Right(None)
"""For everybody: whether the server lives, and how to get in."""
READ, SUBMIT, CONTEST, ADMINISTER = map(Right, AccessScope)


class Routes:
    """Routes of one part of the server: of the API, where they have a tag, or pages and their forms."""

    def __init__(self, prefix: str = "", tag: str | None = None) -> None:
        self._prefix, self._tag = prefix, tag
        self._declared: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def __call__(
        self,
        method: str,
        path: str,
        right: Right,
        answer: Any = None,
        *,
        status: int = 200,
        or_status: int | None = None,
        media: str | None = None,
        takes: str | None = None,
    ) -> Callable[[F], F]:
        """Declare a route.

        Its answer is JSON, of a model or of keys with their types, or what `media` names; `takes` names a raw body.
        """

        def declare(endpoint: F) -> F:
            model = _model_of(endpoint, answer) if isinstance(answer, dict) else answer
            options: dict[str, Any] = {"methods": [method], "dependencies": [Depends(right)], "response_model": model}
            if self._tag is None:
                options["include_in_schema"] = False
            else:
                responses, done = dict(PROBLEMS), {"description": "Successful Response"}
                if or_status is not None:
                    responses[or_status] = {**done, "model": model}
                if media is not None:
                    responses[status] = {**done, "content": _content(media)}
                    options["response_class"] = Response
                options |= {"tags": [self._tag], "status_code": status, "responses": responses}
            if takes is not None:
                options["openapi_extra"] = {"requestBody": {"content": _content(takes), "required": True}}
            self._declared.append((self._prefix + path, endpoint, options))
            return endpoint

        return declare

    def join(self, app: FastAPI) -> None:
        """Make them routes of an application."""
        for path, endpoint, options in self._declared:
            app.add_api_route(path, endpoint, **options)


def _model_of(endpoint: Callable[..., Any], keys: dict[str, Any]) -> type[AnswerModel]:
    name = endpoint.__name__.title().replace("_", "") + "Answer"
    fields: dict[str, Any] = {key: (kind, ...) for key, kind in keys.items()}
    return create_model(name, __base__=AnswerModel, __doc__=endpoint.__doc__, **fields)


def _content(media: str) -> dict[str, Any]:
    return {media: {"schema": {"type": "string"} | ({} if media.startswith("text/") else {"format": "binary"})}}


def right_of(route: object) -> Right:
    """The right that a route declares; RuntimeError for one that declares none, which no server starts with."""
    depends = route.dependencies if isinstance(route, APIRoute) else []
    rights = [needed.dependency for needed in depends if isinstance(needed.dependency, Right)]
    if len(rights) != 1:
        raise RuntimeError(f"{getattr(route, 'path', route)}: a route declares the one right that it needs")
    return rights[0]


def server_of(request: Request) -> Server:
    """The server that a request reached."""
    server = request.app.state.server
    assert isinstance(server, Server)
    return server


async def _server(request: Request) -> Server:
    return server_of(request)


async def _principal(request: Request) -> Principal:
    principal = request.state.principal
    assert isinstance(principal, Principal)
    return principal


async def _author(request: Request) -> ChangeAuthor:
    author = request.state.author
    assert isinstance(author, ChangeAuthor)
    return author


TheServer = Annotated[Server, Depends(_server)]
TheCaller = Annotated[Principal, Depends(_principal)]
TheAuthor = Annotated[ChangeAuthor, Depends(_author)]


def answer(document: object, status: int = 200) -> Response:
    """One JSON document, written as it is and not held against its declared form again; what is not known is null.

    What is not seen in somebody's text, or turns it round, is escaped as JSON has it: the value is the same.
    """
    data = to_json(document, inf_nan_mode="null")
    if not data.isascii() or b"\x7f" in data:
        data = visible_json(data.decode("utf-8")).encode("utf-8")
    return Response(data, status, media_type="application/json")
