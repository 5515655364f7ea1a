"""What a stored password costs whoever tries to find it: in a process of its own, as a server has it."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys

from hosted import PASSWORD

HASHED = """\
import json, sys
from lynxbench.server.access import fits, hash_password

password = sys.argv[1]
stored = [hash_password(password) for _ in range(2)]
print(json.dumps([stored, [fits(password, one) for one in stored], fits(password + "x", stored[0])]))
"""


def test_a_stored_password_is_salted_and_as_dear_as_the_cheat_sheet_asks() -> None:
    """OWASP's password storage cheat sheet: scrypt with N = 2^14, r = 8, p = 5, one of its equal settings."""
    done = subprocess.run(
        [sys.executable, "-c", HASHED, PASSWORD], capture_output=True, text=True, timeout=600, check=True
    )
    stored, opened, other = json.loads(done.stdout)
    assert opened == [True, True]
    assert other is False
    salts = []
    for one in stored:
        scheme, salt, digest = one.split("$")
        assert scheme == "scrypt "
        salts.append(base64.b64decode(salt))
        dear = hashlib.scrypt(PASSWORD.encode(), salt=salts[-1], n=1 << 14, r=8, p=5, maxmem=64 << 20)
        assert base64.b64decode(digest) == dear
    assert salts[0] != salts[1]
    assert all(len(salt) == 16 for salt in salts)
