"""Secrets never reach a record, whatever they are called and wherever they hide."""

from __future__ import annotations

import json
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from lynxbench.executor.engine_facts import fields_from_facts
from lynxbench.executor.system import ALLOWED_NAMES, ALLOWED_PREFIXES, select_environment

QUICK = settings(max_examples=100, deadline=None)
PREFIX = st.sampled_from(ALLOWED_PREFIXES)
WORD = st.text(string.ascii_uppercase + "_", max_size=12)
SECRET_WORD = st.sampled_from(["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "APIKEY"])
SECRET_PART = st.sampled_from(["KEY", "KEYS", "API_KEY", "AUTH", "PWD", "PASS"])
SAFE = st.text(string.ascii_letters + string.digits, min_size=6, max_size=16)
URL_PART = st.text(string.ascii_letters + string.digits + "-._~%!", min_size=1, max_size=20)


@QUICK
@given(PREFIX, WORD, SECRET_WORD, WORD, SAFE)
def test_a_name_that_holds_a_secret_word_is_never_recorded(a: str, b: str, word: str, c: str, value: str) -> None:
    name = f"{a}{b}{word}{c}"
    known = select_environment({name: value})
    assert known.variables == {}
    assert known.withheld == 1


@QUICK
@given(PREFIX, SECRET_PART, st.sampled_from(["", "_ID", "_1", "_FILE"]), SAFE)
def test_a_name_with_a_secret_part_is_never_recorded(a: str, part: str, tail: str, value: str) -> None:
    assert select_environment({f"{a}{part}{tail}": value}).variables == {}


@QUICK
@given(st.sampled_from(sorted(ALLOWED_NAMES)), st.sampled_from(["http", "https", "redis", "s3", "postgresql+psycopg"]),
       URL_PART, URL_PART, st.text(string.printable, max_size=30))  # fmt: skip
def test_credentials_in_a_url_are_never_recorded(name: str, scheme: str, user: str, password: str, around: str) -> None:
    value = f"{around}{scheme}://{user}:{password}@host.example/path"
    recorded = select_environment({name: value}).variables
    assert password not in recorded.get(name, "") or recorded == {}
    assert recorded == {}
    fields = fields_from_facts({"serving.url": value}, "engine")
    assert "host.example" not in json.dumps([f.model_dump(mode="json") for m in fields.values() for f in m.values()])


@QUICK
@given(PREFIX, st.text(string.ascii_letters + string.digits, min_size=40, max_size=80))
def test_long_random_strings_are_never_recorded(prefix: str, value: str) -> None:
    varied = sum(c.isdigit() for c in value) >= 2 and len(set(value)) >= 20
    recorded = select_environment({f"{prefix}SETTING": value}).variables
    assert not varied or recorded == {}


@QUICK
@given(
    st.dictionaries(st.text(string.ascii_uppercase + "_", min_size=1, max_size=20), st.text(max_size=40), max_size=20)
)
def test_only_allowed_names_are_recorded(environ: dict[str, str]) -> None:
    known = select_environment(environ)
    assert all(name in ALLOWED_NAMES or name.startswith(ALLOWED_PREFIXES) for name in known.variables)


@QUICK
@given(PREFIX, st.integers(0, 10**9), st.sampled_from(["", "true", "TRUE", "auto", "spread", "flash_attn", "0-3,8"]))
def test_ordinary_settings_survive(prefix: str, number: int, word: str) -> None:
    environ = {f"{prefix}NUM_THREADS": str(number), f"{prefix}MODE": word}
    assert select_environment(environ).variables == environ
