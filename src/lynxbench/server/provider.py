"""Signing in by the company's OpenID provider: authorization code with PKCE, and one ID token that is believed.

Nothing is asked of the provider before somebody signs in, so that a provider that is down holds up no start and no
password. What it says counts where the ID token is signed by its own key, for this server, for this very sign-in.
"""

import base64
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from lynxbench.errors import BadInput, LynxbenchError
from lynxbench.https import request
from lynxbench.server.access import digest_of
from lynxbench.server.provider_settings import ProviderSettings, guarded_address

SIGN_IN_S = 600
"""From the first click to the return; RFC 6749 lets a code live for ten minutes at most."""
FRESH_S = 3600.0
"""The provider's description and keys are asked for again after so long; a key that is not known, at once."""
TIMEOUT_S = 10.0
MOST_ANSWER_BYTES = 1 << 20
MOST_USED = 100_000
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures by a key that the provider alone holds: never `none`, never one that the client's secret could make."""
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
MOST_SUBJECT = 255
NONCE_BYTES = 12
_ERROR_WORD = re.compile(r"[a-z_]{1,60}")


class SignInFailed(LynxbenchError):
    """A sign-in that came to nothing: what to tell whoever tried, and the status of that page."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """What was sent along, and must come back: kept sealed in the browser that began it, and nowhere else."""

    state: str
    nonce: str
    verifier: str
    target: str
    until: float


@dataclass(frozen=True, slots=True)
class VouchedPerson:
    """Whom the provider vouches for, by claims of a token that was checked."""

    issuer: str
    subject: str
    wished_name: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the provider said about itself."""

    at: float
    about: Mapping[str, Any]
    keys: Any


class Provider:
    """One OpenID provider, as the client that it knows this server as."""

    def __init__(
        self,
        settings: ProviderSettings,
        secret: str | None,
        return_to: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            import authlib.oauth2.rfc7636  # noqa: F401
            import joserfc.jwt  # noqa: F401
        except ImportError:
            raise BadInput("--oidc needs Authlib; pip install 'lynxbench[oidc]'") from None
        self.settings = settings
        self._secret, self._return_to, self._clock = secret or None, return_to, clock
        self._seal = ChaCha20Poly1305(ChaCha20Poly1305.generate_key())
        self._known: _Known | None = None
        self._used: dict[str, float] = {}
        self._lock = threading.Lock()

    # --- there --------------------------------------------------------------------------------------------------------

    def begin(self, target: str) -> tuple[str, str]:
        """Where to send the browser, and what it must bring back in its cookie."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        about = self._about().about
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        pending = PendingSignIn(state, nonce, verifier, target, self._clock() + SIGN_IN_S)
        address = prepare_grant_uri(
            about["authorization_endpoint"],
            self.settings.client_id,
            "code",
            redirect_uri=self._return_to,
            scope=list(dict.fromkeys(("openid", *self.settings.scopes))),
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return str(address), self._sealed(pending)

    def leave_at(self) -> str | None:
        """Where one signs out of the provider itself, where it says so and was asked before."""
        known = self._known
        place = None if known is None else known.about.get("end_session_endpoint")
        return place if isinstance(place, str) and _is_guarded(place) else None

    # --- and back -----------------------------------------------------------------------------------------------------

    def finish(self, cookie: str, answer: Mapping[str, str]) -> tuple[VouchedPerson, str]:
        """Who signed in, and where they wanted to go; SignInFailed says why nobody did."""
        pending = self._opened(cookie)
        if pending is None or not hmac.compare_digest(
            answer.get("state", "").encode("utf-8", "surrogatepass"), pending.state.encode()
        ):
            raise SignInFailed(
                400, "this sign-in was not begun in this browser, or it took longer than ten minutes; begin again"
            )
        self._use_up(pending)
        about = self._about().about
        issuer = answer.get("iss")
        if issuer is None and about.get("authorization_response_iss_parameter_supported") is True:
            raise SignInFailed(400, "the answer does not say which provider it is from")
        if issuer is not None and issuer != self.settings.issuer:
            raise SignInFailed(400, "the answer is from another provider")
        if "error" in answer:
            word = answer["error"] if _ERROR_WORD.fullmatch(answer["error"]) else "an error"
            raise SignInFailed(403, f"{self.settings.name} did not let you in: {word}")
        if not answer.get("code"):
            raise SignInFailed(400, "the answer holds no code; begin again")
        token = self._exchange(about, answer["code"], pending.verifier)
        return self._vouched(token, pending.nonce), pending.target

    def _exchange(self, about: Mapping[str, Any], code: str, verifier: str) -> Mapping[str, Any]:
        from authlib.oauth2.auth import ClientAuth
        from authlib.oauth2.rfc6749.parameters import prepare_token_request

        body = prepare_token_request(
            "authorization_code", redirect_uri=self._return_to, code=code, code_verifier=verifier
        )
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        auth = ClientAuth(self.settings.client_id, self._secret, self._auth_method(about))
        place, headers, body = auth.prepare("POST", about["token_endpoint"], headers, body)
        status, token = self._ask("POST", place, body.encode(), headers)
        if status != 200:
            word = token.get("error")
            shown = word if isinstance(word, str) and _ERROR_WORD.fullmatch(word) else f"status {status}"
            raise SignInFailed(403, f"{self.settings.name} did not take the code: {shown}; begin again")
        return token

    def _auth_method(self, about: Mapping[str, Any]) -> str:
        if self._secret is None:
            return "none"
        offered = about.get("token_endpoint_auth_methods_supported")
        basic = not isinstance(offered, list) or "client_secret_basic" in offered
        return "client_secret_basic" if basic else "client_secret_post"

    def _vouched(self, token: Mapping[str, Any], nonce: str) -> VouchedPerson:
        from authlib.oidc.core import CodeIDToken
        from joserfc.errors import JoseError

        text, settings = token.get("id_token"), self.settings
        if not isinstance(text, str):
            raise SignInFailed(502, f"{settings.name} sent no ID token")
        header, claims = self._verified(text)
        options = {
            "iss": {"essential": True, "value": settings.issuer},
            "aud": {"essential": True, "value": settings.client_id},
        }
        params = {"nonce": nonce, "client_id": settings.client_id, "access_token": token.get("access_token")}
        checked = CodeIDToken(claims, header, options, params)
        now = int(self._clock())
        try:
            checked.validate(now=now, leeway=int(settings.clock_skew_s))
        except (JoseError, ValueError, TypeError, AttributeError) as error:
            raise SignInFailed(403, f"the ID token does not hold: {_claim_problem(error)}") from None
        if claims["iat"] < now - SIGN_IN_S - settings.clock_skew_s:
            raise SignInFailed(403, "the ID token does not hold: it was issued long before this sign-in")
        subject = claims["sub"]
        if not 0 < len(subject) <= MOST_SUBJECT or "\0" in subject:
            raise SignInFailed(403, "the ID token does not hold: its subject is no name for somebody")
        return VouchedPerson(settings.issuer, subject, _wished_name(claims), self._groups(claims))

    def _groups(self, claims: Mapping[str, Any]) -> frozenset[str]:
        """The groups of the signed token, as they stand there; nothing else that the browser or provider sends."""
        name = self.settings.groups_claim
        elsewhere = claims.get("_claim_names")
        if name not in claims and isinstance(elsewhere, dict) and name in elsewhere:
            raise SignInFailed(403, f"the ID token leaves {name} out because they are too many; ask for fewer in it")
        groups = claims.get(name, [])
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise SignInFailed(403, f"the ID token's claim {name} is no list of groups")
        return frozenset(groups)

    def _verified(self, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        for fresh in (False, True):
            known = self._about(fresh=fresh)
            offered = known.about.get("id_token_signing_alg_values_supported")
            allowed = [name for name in ALGORITHMS if not isinstance(offered, list) or name in offered]
            try:
                token = jwt.decode(text, known.keys, algorithms=allowed)
            except InvalidKeyIdError:
                continue  # the provider may have a new key since it was asked
            except (JoseError, ValueError, TypeError, KeyError):
                raise SignInFailed(403, "the ID token does not hold: it is not signed as it should be") from None
            return dict(token.header), dict(token.claims)
        raise SignInFailed(403, "the ID token does not hold: no key of the provider signed it")

    # --- what the provider says about itself --------------------------------------------------------------------------

    def _about(self, *, fresh: bool = False) -> _Known:
        known = self._known
        if known is not None and not fresh and 0 <= self._clock() - known.at < FRESH_S:
            return known
        from authlib.oidc.discovery import get_well_known_url
        from joserfc.jwk import KeySet

        name = self.settings.name
        status, about = self._ask("GET", get_well_known_url(self.settings.issuer, external=True))
        if status != 200 or about.get("issuer") != self.settings.issuer:
            raise SignInFailed(502, f"{name} does not describe itself as the issuer that this server was told of")
        if not all(_is_guarded(about.get(place)) for place in ENDPOINTS):
            raise SignInFailed(502, f"{name} describes itself without addresses that can be trusted")
        methods = about.get("code_challenge_methods_supported")
        if isinstance(methods, list) and "S256" not in methods:
            raise SignInFailed(502, f"{name} does not offer PKCE with S256")
        status, keys = self._ask("GET", about["jwks_uri"])
        try:
            held = KeySet.import_key_set(keys)  # type: ignore[arg-type]
        except Exception:  # whatever a library makes of keys that are none
            raise SignInFailed(502, f"{name} shows no keys that can be read") from None
        self._known = known = _Known(self._clock(), about, held)
        return known

    def _ask(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """One answer that is a JSON object; redirects are not followed."""
        name = self.settings.name
        try:
            given = request(method, url, body, headers, timeout_s=TIMEOUT_S, most_bytes=MOST_ANSWER_BYTES)
        except (OSError, ValueError):
            raise SignInFailed(502, f"{name} does not answer; try again later, or use a password") from None
        try:
            document = json.loads(given.body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise SignInFailed(502, f"{name} answered with status {given.status} and nothing that can be read")
        return given.status, document

    # --- what the browser carries -------------------------------------------------------------------------------------

    def _sealed(self, pending: PendingSignIn) -> str:
        nonce = secrets.token_bytes(NONCE_BYTES)
        text = json.dumps(asdict(pending)).encode()
        return base64.urlsafe_b64encode(nonce + self._seal.encrypt(nonce, text, None)).decode("ascii")

    def _opened(self, cookie: str) -> PendingSignIn | None:
        try:
            data = base64.b64decode(cookie.encode("ascii"), b"-_", validate=True)
            pending = PendingSignIn(**json.loads(self._seal.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None)))
        except (InvalidTag, ValueError):
            return None
        return pending if self._clock() < pending.until else None

    def _use_up(self, pending: PendingSignIn) -> None:
        """Each sign-in returns once, whatever the provider thinks of a code that comes again."""
        now, mark = self._clock(), digest_of(pending.state)
        with self._lock:
            if len(self._used) >= MOST_USED:
                self._used = {used: until for used, until in self._used.items() if until > now}
            if len(self._used) >= MOST_USED:
                raise SignInFailed(503, "too many people sign in at once; try again in a minute")
            if mark in self._used:
                raise SignInFailed(400, "this sign-in was used already; begin again")
            self._used[mark] = pending.until


def _is_guarded(url: object) -> bool:
    """Whether an address of the provider may be used; it may have a query."""
    if not isinstance(url, str) or len(url) > 2000 or not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        guarded_address(url.partition("?")[0])
    except ValueError:
        return False
    return True


def _wished_name(claims: Mapping[str, Any]) -> str:
    named = (claims.get(claim) for claim in ("preferred_username", "email", "name"))
    return next((name for name in named if isinstance(name, str) and name), "")


def _claim_problem(error: Exception) -> str:
    """Which claim, in words of ours: a library's own may quote the token."""
    claim = str(getattr(error, "claim", "") or "")
    kind = str(getattr(error, "error", ""))
    words = {
        "iss": "another issuer made it",
        "aud": "it is for another client",
        "azp": "it is for another client",
        "nonce": "it belongs to another sign-in",
        "exp": "it has expired" if kind == "expired_token" else "it does not say when it expires",
        "iat": "it does not say when it was issued, or that is in the future",
        "nbf": "it does not hold yet",
        "at_hash": "it does not belong to the access token beside it",
    }
    return words.get(claim, "a claim is missing or wrong")
