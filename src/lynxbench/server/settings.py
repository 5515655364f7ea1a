"""How a server was told to run, and the one refusal that comes before it listens."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lynxbench.errors import BadInput, Refused
from lynxbench.server.addresses import address_of, is_loopback
from lynxbench.server.provider_settings import ProviderSettings

LOOPBACK = "127.0.0.1"
PORT = 8420
MOST_BUNDLE_BYTES = 256 << 20
MOST_CHUNK_BYTES = 8 << 20
MOST_PUSHED_BYTES = 8 << 20
"""A bundle that comes by one request; larger ones come in pieces, which go on where they stopped."""
MOST_BODY_BYTES = 1 << 20
MOST_FORM_BYTES = 256 << 10
MOST_LOG_BYTES = 8 << 20
"""A production log that is held against a contract."""
READS_PER_S = 50.0
"""Sustained requests of one reader; bursts of ten times as many pass."""
MOST_PROXIES = 16
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything that `lynxbench serve` may be told."""

    host: str = LOOPBACK
    port: int = PORT
    origin: str | None = None
    """The address people type, where a proxy stands before the server: https://bench.example."""
    public_read: bool = False
    """Whether everybody may read without signing in: an explicit choice."""
    proxies: int = 0
    """How many proxies stand before, one after the other: so many addresses of X-Forwarded-For are theirs to say."""
    reads_per_s: float = READS_PER_S
    largest_bundle_bytes: int = MOST_BUNDLE_BYTES
    upload_folder: Path = Path("uploads")
    smtp_url: str | None = None
    mail_from: str = "lynxbench@localhost"
    environment: Mapping[str, str] = field(default_factory=dict)
    provider: ProviderSettings | None = None
    """Who else vouches for people, beside passwords."""

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host) and address_of(self.host) is None:
            raise BadInput(f"--host {self.host!r}: give an address or a name")
        if not 0 <= self.port <= 65535:
            raise BadInput(f"--port {self.port}: 0 to 65535")
        if not 0 <= self.proxies <= MOST_PROXIES:
            raise BadInput(f"--proxies {self.proxies}: 1 to {MOST_PROXIES}")
        if self.origin is not None:
            parts = urlsplit(self.origin)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.rstrip("/") or parts.query:
                raise BadInput(f"--origin {self.origin!r}: write https://NAME, without a path")
        if self.provider is not None and self.origin is None and self.port == 0:
            raise BadInput("--oidc: the provider sends people back to one address; give --origin, or a --port")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def base_url(self) -> str:
        """How links outside of pages begin."""
        if self.origin is not None:
            return self.origin.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"http://{host}:{self.port}"

    @property
    def secure(self) -> bool:
        """Whether people reach it by https: then cookies go nowhere else."""
        return self.base_url.startswith("https:")

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """Host headers that are answered; others are somebody's trick to make a browser read for them."""
        names = {urlsplit(self.base_url).hostname or ""}
        if self.is_local:
            names |= {"localhost", "127.0.0.1", "::1"}
        return frozenset(name.lower() for name in names if name)


@dataclass(frozen=True, slots=True)
class WorkerBounds:
    """How much recomputing one result, or taking in one bundle, may take."""

    memory_bytes: int = 2 << 30
    """Address space: eight times the largest bundle that is taken by default, and what Python and numpy take."""
    cpu_s: int = 60
    """Processor time; the largest published result takes a few seconds."""
    wall_s: int = 600
    """By the clock: a busy machine gives this process little, so it is far more than the processor time."""
    disk_bytes: int | None = 1 << 30
    """One file; None where it writes the ledger itself, which grows."""


def refuse_open(settings: ServerSettings, *, has_administrator: bool) -> None:
    """Refuse to listen on a network where nobody has to say who they are."""
    if settings.is_local or has_administrator:
        return
    raise Refused(
        f"--host {settings.host} opens the server to the network, and nobody is registered who could let others in; "
        "first: lynxbench serve user add NAME --team TEAM --scopes read,submit,contest,administer"
    )


def dangers_of(settings: ServerSettings, *, tls: bool, is_root: bool) -> list[str]:
    """What whoever starts the server should know before others use it; nothing of it is refused."""
    dangers = []
    if not settings.is_local and not tls and not settings.secure:
        dangers.append(
            f"--host {settings.host} is reached over plain http: passwords, tokens and sessions can be read and taken "
            "on their way; give --tls-cert and --tls-key, or --origin https://NAME with a proxy before it"
        )
    if is_root:
        dangers.append(
            "it runs as root: whoever finds a fault in it has the whole machine; run it as a user of its own "
            "(deploy/systemd, deploy/Containerfile)"
        )
    return dangers
