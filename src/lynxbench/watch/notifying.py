"""Messages to owners: a webhook, an e-mail or OpenTelemetry, once each, with the evidence.

Failures are retried and then shown.
"""

import hashlib
import hmac
import json
import os
import smtplib
import ssl
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate, parseaddr
from urllib.parse import unquote, urlsplit

from sqlalchemy import delete, select, update

from lynxbench.errors import BadInput, NotFound
from lynxbench.https import request
from lynxbench.ledger.database import upsert
from lynxbench.model.canonical import short
from lynxbench.record.otlp import LOGS, post_otlp, render_event
from lynxbench.report.words import clean
from lynxbench.watch.regressions import EVERYBODY, Notice
from lynxbench.watch.sealed_secrets import MARK, SecretSealer
from lynxbench.watch.store import Store, later_text, now_text
from lynxbench.watch.store_tables import contacts, outbox

WEBHOOK, MAIL, COLLECTOR = "webhook", "mail", "otlp"
EVENT = "lynxbench.regression"
TIMEOUT_S = 10.0
MOST_ATTEMPTS = 6
FIRST_WAIT_S = 5.0
SMTP_VARIABLE = "LYNXBENCH_SMTP"
MOST_OWNER = 200


@dataclass(frozen=True, slots=True)
class Contact:
    """Where an owner is reached; a webhook's secret is never shown again."""

    owner: str
    channel: str
    address: str
    made_at: str


class Contacts:
    """Who is told."""

    def __init__(self, store: Store, sealer: SecretSealer) -> None:
        self._store, self._sealer = store, sealer

    def list(self) -> list[Contact]:
        """All of them."""
        rows = self._store.rows(select(contacts).order_by(contacts.c.owner, contacts.c.channel))
        return [Contact(row.owner, row.channel, row.address, row.made_at) for row in rows]

    def put(self, owner: str, channel: str, address: str, secret: str | None = None) -> Contact:
        """Where an owner is reached from now on; `*` is everybody who has no contact of their own."""
        name = owner.strip()
        if not 0 < len(name) <= MOST_OWNER:
            raise BadInput(f"an owner has 1 to {MOST_OWNER} characters; * is everybody without a contact")
        _refuse_address(channel, address)
        if secret is not None and not 8 <= len(secret) <= 64:
            raise BadInput("a webhook's secret has 8 to 64 characters")
        sealed = None if secret is None else self._sealer.seal(secret, _place(name, channel))
        values = {"address": address, "secret": sealed, "made_at": now_text()}
        with self._store.writing() as connection:
            upsert(connection, contacts, {"owner": name, "channel": channel}, values)
        return Contact(name, channel, address, str(values["made_at"]))

    def remove(self, owner: str, channel: str) -> None:
        """Tell this owner no longer."""
        mine = contacts.c.owner == owner, contacts.c.channel == channel
        if not self._store.change(delete(contacts).where(*mine)):
            raise NotFound(f"no {channel[:20]} of {owner[:80]!r}")

    def secret(self, owner: str, address: str = "") -> str | None:
        """What signs a webhook to this owner, or to the one among several who is reached there."""
        rows = self._store.rows(select(contacts).where(contacts.c.channel == WEBHOOK))
        there = (row for row in rows if row.address == address and row.owner in owner)
        by_name = {row.owner: row for row in rows}
        row = next((row for row in (by_name.get(owner), *there, by_name.get(EVERYBODY)) if row is not None), None)
        if row is None or row.secret is None:
            return None
        return self._sealer.open(str(row.secret), _place(str(row.owner), WEBHOOK))

    def seal_clear(self) -> int:
        """Seal what an earlier version kept as it was; how many there were."""
        clear = contacts.c.secret.is_not(None), contacts.c.secret.not_like(f"{MARK}%")
        rows = self._store.rows(select(contacts).where(*clear))
        for row in rows:
            sealed = self._sealer.seal(str(row.secret), _place(row.owner, row.channel))
            mine = contacts.c.owner == row.owner, contacts.c.channel == row.channel
            self._store.change(update(contacts).where(*mine).values(secret=sealed))
        if rows:
            self._store.forget_deleted()
        return len(rows)


class Courier:
    """Sends what waits in the outbox; `base_url` is how links in messages begin."""

    def __init__(
        self,
        store: Store,
        contacts: Contacts,
        base_url: str,
        smtp_url: str | None = None,
        mail_from: str = "lynxbench@localhost",
    ) -> None:
        self._store, self._contacts = store, contacts
        self._base_url, self._smtp_url, self._mail_from = base_url, smtp_url, mail_from

    def waiting(self) -> list[tuple[int, str]]:
        """Messages that are due, with their notices."""
        chosen = (
            select(outbox.c.number, outbox.c.notice)
            .where(outbox.c.state == "pending", outbox.c.next_at <= now_text())
            .order_by(outbox.c.number)
        )
        return [(row.number, row.notice) for row in self._store.rows(chosen)]

    def send(self, number: int, notice: Notice, text: str) -> str:
        """Send one message; its state afterwards. It is put off before it is tried: a crash never sends it twice
        within its waiting time."""
        row = self._store.row(select(outbox).where(outbox.c.number == number))
        if row is None or row.state != "pending":
            return "" if row is None else str(row.state)
        attempts = row.attempts + 1
        again = later_text(FIRST_WAIT_S * 4**attempts)
        mine = outbox.c.number == number
        self._store.change(update(outbox).where(mine).values(attempts=attempts, next_at=again))
        try:
            if row.channel == WEBHOOK:
                self._post(row.address, notice)
            elif row.channel == COLLECTOR:
                post_otlp(row.address, {LOGS: self.event(notice)}, os.environ, TIMEOUT_S)
            else:
                self._mail(row.address, notice, text)
        except (OSError, smtplib.SMTPException, BadInput) as error:
            state = "failed" if attempts >= MOST_ATTEMPTS else "pending"
            problem = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self._store.change(update(outbox).where(mine).values(state=state, said=problem))
            return state
        self._store.change(update(outbox).where(mine).values(state="sent", sent_at=now_text(), said=""))
        return "sent"

    def document(self, notice: Notice) -> dict[str, object]:
        """What a webhook gets."""
        effect = {"low": notice.low, "estimate": notice.estimate, "high": notice.high}
        return {"kind": "regression", **asdict(notice), "effect": effect, "evidence": self._links(notice)}

    def event(self, notice: Notice) -> dict[str, object]:
        """What a collector of OpenTelemetry gets: a log record with the notice's values, at the run that showed it."""
        values = {f"lynxbench.{name}": value for name, value in asdict(notice).items() if name != "sentence"}
        links = {f"lynxbench.evidence.{what}": link for what, link in self._links(notice).items()}
        body = f"{clean(notice.contract_name)} regressed at {clean(notice.place)}. {clean(notice.sentence)}"
        return render_event(EVENT, body, notice.opened_at, {**values, **links}, notice.result_id)

    def _links(self, notice: Notice) -> dict[str, str]:
        base = self._base_url
        return {
            "before": f"{base}/results/{notice.baseline_id}",
            "after": f"{base}/results/{notice.result_id}",
            "compare": f"{base}/compare?a={notice.baseline_id}&b={notice.result_id}",
            "contract": f"{base}/contracts/{notice.contract_id}",
        }

    def _post(self, address: str, notice: Notice) -> None:
        body = json.dumps(self.document(notice), ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", "X-Lynxbench-Notice": notice.notice}
        secret = self._contacts.secret(notice.owner, address)
        if secret is not None:
            signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Lynxbench-Signature"] = f"sha256={signed}"
        answer = request("POST", address, body, headers, timeout_s=TIMEOUT_S, most_bytes=1 << 16)
        if not answer.is_good:
            raise BadInput(f"the webhook answered {answer.status}")

    def _mail(self, address: str, notice: Notice, text: str) -> None:
        if not self._smtp_url:
            raise BadInput(f"no mail server is set; {SMTP_VARIABLE}=smtp://HOST:PORT")
        parts = urlsplit(self._smtp_url)
        message = EmailMessage()
        message["From"] = self._mail_from
        message["To"] = address
        subject = clean(f"regression: {notice.contract_name} at {notice.place}, {notice.precision}")
        message["Subject"] = subject[:180]
        message["Date"] = formatdate(datetime.now(UTC).timestamp())
        message["Message-ID"] = f"<{notice.notice}@lynxbench>"
        message.set_content(self.letter(notice, text))
        secure = parts.scheme == "smtps"
        kind, port = (smtplib.SMTP_SSL, 465) if secure else (smtplib.SMTP, 25)
        with kind(parts.hostname or "", parts.port or port, timeout=TIMEOUT_S) as server:
            if parts.username:
                if not secure:
                    server.starttls(context=ssl.create_default_context())
                server.login(unquote(parts.username), unquote(parts.password or ""))
            server.send_message(message)

    def letter(self, notice: Notice, text: str) -> str:
        """The mail: whose it is, the evidence, and where to look."""
        suspected = f"Suspected layer: {notice.layer}" if notice.layer else "No one layer is suspected"
        lines = [
            f"{clean(notice.contract_name)} regressed at {clean(notice.place)}.",
            f"{suspected}. Owner: {clean(notice.owner)}.",
            clean(notice.sentence),
            "",
            text.rstrip(),
            "",
            *(f"{what:<8} {link}" for what, link in self._links(notice).items()),
            "",
            f"You are told once. Notice {short(notice.notice)}.",
        ]
        return "\n".join(lines)


def _place(owner: str, channel: str) -> str:
    return f"{channel} of {owner}"


def _refuse_address(channel: str, address: str) -> None:
    if len(address) > 2000 or any(ord(letter) <= 32 or ord(letter) == 127 for letter in address):
        raise BadInput(f"{address[:80]!r} is no address")
    if channel in (WEBHOOK, COLLECTOR):
        try:
            parts = urlsplit(address)
            fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
            parts.port  # noqa: B018  raises where it is no number
        except ValueError:
            fits = False
        if not fits and channel == COLLECTOR:
            raise BadInput(f"{address[:80]!r} is no collector: write http://HOST:4318, without a password in it")
        if not fits:
            raise BadInput(f"{address[:80]!r} is no webhook: write https://HOST/PATH, without a password in it")
    elif channel == MAIL:
        if "@" not in parseaddr(address)[1] or parseaddr(address)[1] != address:
            raise BadInput(f"{address[:80]!r} is no mail address")
    else:
        raise BadInput(f"{channel[:40]!r}: a contact is a {WEBHOOK}, a {MAIL} or {COLLECTOR}")
