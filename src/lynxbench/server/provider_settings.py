"""What whoever runs the server says about the company's sign-in: who it is, and which of its groups may do what."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from lynxbench.model.document import Document
from lynxbench.model.fields import One, Seconds, Text
from lynxbench.model.strict_file import FileForm, parse_file
from lynxbench.model.team_names import Team
from lynxbench.reading import read_text
from lynxbench.server.addresses import is_loopback
from lynxbench.server.rights import AccessScope

SECRET_VARIABLE = "LYNXBENCH_OIDC_SECRET"
"""Holds the client's secret, where the provider gave it one; it stands in no file of ours."""
MOST_GROUPS = 200
MOST_SKEW_S = 300.0


def guarded_address(url: str) -> str:
    """An address that nobody on the way can answer for: https, or this machine itself."""
    parts = urlsplit(url)
    plain_here = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not parts.hostname or (parts.scheme != "https" and not plain_here):
        raise ValueError(f"{url[:200]!r}: write https://NAME; plain http is for this machine alone")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"{url[:200]!r}: an issuer has no user, query or fragment")
    return url


class GroupRight(Document):
    """What members of one group of the provider may do here."""

    group: Annotated[Text, Field(max_length=255, description="the group, letter by letter as the provider writes it")]
    team: Annotated[Team | None, Field(description="the team that its members speak for")] = None
    may: Annotated[
        tuple[AccessScope, ...],
        Field(min_length=1, description="of read, submit, contest, administer"),
    ]


class ProviderSettings(Document):
    """The file of `lynxbench serve --oidc`."""

    lynxbench_sign_in: One
    issuer: Annotated[
        Text,
        AfterValidator(guarded_address),
        Field(max_length=300, description="the provider's address, as in its tokens"),
    ]
    client_id: Annotated[Text, Field(max_length=255, description="under which name the provider knows this server")]
    name: Annotated[Text, Field(max_length=60, description="what the button for it says")] = "your company"
    scopes: Annotated[
        tuple[Text, ...], Field(min_length=1, max_length=20, description="what is asked for; openid always is")
    ] = ("openid", "profile")
    groups_claim: Annotated[Text, Field(max_length=255, description="the claim of the ID token with the groups")] = (
        "groups"
    )
    groups: Annotated[
        tuple[GroupRight, ...],
        Field(min_length=1, max_length=MOST_GROUPS, description="groups and what each may do; others may nothing"),
    ]
    clock_skew_s: Annotated[
        Seconds, Field(alias="clock_skew", ge=0, le=MOST_SKEW_S, description="how far the two clocks may be apart")
    ] = 60.0


PROVIDER = FileForm("a sign-in file", "begin it with `lynxbench_sign_in: 1`", ProviderSettings)


def parse_provider(text: str, file: str) -> ProviderSettings:
    """A sign-in file's text, strictly."""
    return parse_file(text, file, PROVIDER)


def read_provider(path: Path) -> ProviderSettings:
    """The file of `--oidc`; BadFile where it is none."""
    return parse_provider(read_text(path, PROVIDER.noun), str(path))


@dataclass(frozen=True, slots=True)
class MappedRights:
    """What somebody's groups come to."""

    team: str
    scopes: frozenset[AccessScope]


def rights_of(settings: ProviderSettings, groups: Collection[str]) -> MappedRights | None:
    """Team and scopes of whoever is in these groups; None where they come to nothing.

    Names are compared letter by letter. A person speaks for one team: that of the first line of the file that fits and
    names one; lines that name another team give nothing, so that a right in one team is never used in another's name.
    """
    held = [line for line in settings.groups if line.group in groups]
    team = next((line.team for line in held if line.team is not None), None)
    if team is None:
        return None
    return MappedRights(team, frozenset(scope for line in held if line.team in (None, team) for scope in line.may))
