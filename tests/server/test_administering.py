"""API, form and command line change the same things in the same way, and leave the same line in the audit log."""

from __future__ import annotations

from pathlib import Path

from command_line import lynxbench_here
from hosted import Caller, World, hidden
from lynxbench.server.rights import API
from recording_teams import TEAM


def test_api_form_and_command_line_leave_the_same_line(world: World, tmp_path: Path) -> None:
    environment = {**world.server.settings.environment}
    newest = world.server.audit.list(limit=1)
    before = newest[0].number if newest else 0
    document = {"owner": "by API", "channel": "mail", "address": "a@example.org"}
    assert world.caller("administrator").json("PUT", f"{API}/contacts", document).status == 200
    browser = Caller(world.port)
    browser.sign_in("administrator")
    fields = {"owner": "by form", "channel": "mail", "address": "b@example.org", "secret": ""}
    csrf = hidden(browser.get("/account").text)
    assert browser.form("/admin/contacts", {"csrf": csrf, **fields}).status == 303
    done = lynxbench_here(
        "serve", "contact", "add", "by command", "--mail", "c@example.org", cwd=tmp_path, **environment
    )
    assert done.code == 0, done.err
    lines = [line for line in world.server.audit.list() if line.number > before and line.action == "set contact"]
    assert [(line.subject, line.who, line.outcome) for line in reversed(lines)] == [
        ("by API", f"administrator ({TEAM})", "ok"),
        ("by form", f"administrator ({TEAM})", "ok"),
        ("by command", "command line", "ok"),
    ]
    assert {line.remote for line in lines} == {"127.0.0.1", ""}
    for owner in ("by API", "by form", "by command"):
        world.server.contacts.remove(owner, "mail")
    world.calm()
