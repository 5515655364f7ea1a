"""Secrets are found and withheld, and plain text is left as it is."""

from __future__ import annotations

import pytest

from lynxbench.model.secrets import WITHHELD, find_literal, find_secret, secret_values, withhold

ENVIRONMENT = {
    "OPENAI_API_KEY": "plain-looking-value",
    "DATABASE_URL": "postgresql://bench:hunter2hunter2@db.example/bench",
    "SERVICE_TOKEN": "true",
    "HOME": "/home/somebody",
}


def test_values_of_secret_variables_and_passwords_in_addresses_are_known() -> None:
    assert secret_values(ENVIRONMENT) == ("plain-looking-value", "hunter2hunter2")


@pytest.mark.parametrize(
    "text",
    [
        "401 from server: key plain-looking-value is wrong",
        "could not connect to postgresql://bench:hunter2hunter2@db.example/bench",
        "redis://:another-password@cache.example refused",
        "sent Authorization: Bearer abc.def-ghi",
        "Authorization: Basic dXNlcjpwYXNz",
        "token hf_abcdefghijklmnop rejected",
        "OPENAI: sk-proj-abcdefghijklmnop",
        "api_key=0123456789abcdef&x=1",
        '{"password": "correct-horse"}',
    ],
)
def test_a_log_line_loses_its_secret_and_keeps_its_sense(text: str) -> None:
    clean = withhold(text, secret_values(ENVIRONMENT))
    assert WITHHELD in clean
    for secret in (
        "plain-looking",
        "hunter2",
        "another-password",
        "abc.def",
        "dXNlc",
        "abcdefghijkl",
        "89abc",
        "horse",
    ):
        assert secret not in clean


@pytest.mark.parametrize(
    "text", ["", "12 tokens per second", "time-per-token p99: 4 ms", "https://host.example/path", "skipped: bf16"]
)
def test_plain_text_stays(text: str) -> None:
    assert withhold(text, secret_values(ENVIRONMENT)) == text


@pytest.mark.parametrize(
    ("launch", "place"),
    [
        (["serve", "--api-key", "letmein"], "engine.launch[2]"),
        (["serve", "--api-key=letmein"], "engine.launch[1]"),
        (["serve", "--hf-token", "hf_abcdefghij"], "engine.launch[2]"),
        (["serve", "--model", "https://user:pass@host/x"], "engine.launch[2]"),
    ],
)
def test_a_secret_among_launch_arguments_is_found(launch: list[str], place: str) -> None:
    assert find_secret({"engine": {"launch": launch}}) == place


@pytest.mark.parametrize("launch", [[], ["serve", "--max-tokens", "128"], ["--tokenizer", "x"], ["--api-key"]])
def test_plain_launch_arguments_are_not(launch: list[str]) -> None:
    assert find_secret({"engine": {"launch": launch}}) is None


def test_a_known_secret_is_found_wherever_it_hides() -> None:
    document = {"a": [{"b": "x plain-looking-value y"}]}
    assert find_literal(document, secret_values(ENVIRONMENT)) == "a[0].b"
    assert find_literal(document, ("something else",)) is None


def test_the_current_folder_is_no_secret() -> None:
    """A model below it would be refused by its own path."""
    here = {"PWD": "/home/ada/models", "OLDPWD": "/home/ada/other", "SSL_CERT_FILE": "/etc/ssl/certs/all.crt"}
    assert secret_values(here) == ()
    assert secret_values({"DB_PWD": "correct-horse"}) == ("correct-horse",)
