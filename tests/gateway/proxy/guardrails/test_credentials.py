import pytest

from gateway.tenancy.teams.secret import new_secret
from tests.gateway.proxy.guardrails.examples import found_in

MIXED = "aB3dE5gH7jK9mN1pQ2sT4vW6xY8zA0cD2fG4"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabc+/=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "secret",
    [
        "AKIAIOSFODNN7EXAMPLE",
        f"ghp_{MIXED}",
        f"github_pat_{MIXED}_{MIXED}",
        "xoxb-123456789012-123456789012-" + MIXED[:24],
        f"AIza{MIXED}"[:39],
        f"sk-{MIXED}",
        f"sk_live_{MIXED}",
        JWT,
        KEY,
    ],
)
def test_marked_secrets_are_found_whole(secret: str) -> None:
    """However long they are; what comes behind stays."""
    assert [secret] == found_in("secrets", f"use {secret} now", detect=["private_key", "marked", "jwt"])


def test_keys_of_this_gateway_are_found() -> None:
    secret = new_secret("search.prod-2")

    assert [secret] == found_in("secrets", f"my key: {secret}.", detect=["marked"])


@pytest.mark.parametrize(
    "text", ["password: hunter2!x", "api_key='hunter2!x'", '"DB_PASSWORD": "hunter2!x"', "secret => hunter2!x"]
)
def test_a_value_that_is_named_a_secret_is_found_without_its_name(text: str) -> None:
    assert ["hunter2!x"] == found_in("secrets", text, detect=["named"])


@pytest.mark.parametrize(
    "text",
    [
        "password: <your password>",
        "password: ********",
        "token = None",
        "the secret of success",
        "max_tokens: 1024",
        "tokenizer: Qwen/Qwen2.5-7B",
        "secret: changeme123!",
        "password = settings.db.password",
        "key: hunter2!x",
    ],
)
def test_other_values_and_names_are_not_credentials(text: str) -> None:
    assert [] == found_in("secrets", text, detect=["named"])


def test_what_is_random_is_found() -> None:
    assert [MIXED + "=="] == found_in("secrets", f"({MIXED}==)", detect=["random"])


@pytest.mark.parametrize(
    "text",
    [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "2f1acc6c-3a60-4a6c-9f5e-0d7e0a9d7c55-2f1acc6c",
        "AbstractSingletonProxyFactoryBean2Configuration",
        "usr/local/lib/python3/site-packages/foo/Bar",
        "how-to-rotate-your-API-keys-safely-in-2026",
    ],
)
def test_digests_paths_and_names_are_not_random(text: str) -> None:
    assert [] == found_in("secrets", text, detect=["random"])


def test_a_private_key_in_json_ends_where_its_string_ends() -> None:
    text = KEY.replace("\n", "\\n")

    assert [text] == found_in("secrets", f'{{"key": "{text}", "user": "jane"}}', detect=["private_key"])
    cut = text[:50]
    assert [cut] == found_in("secrets", f'{{"key": "{cut}", "user": "jane"}}', detect=["private_key"])
