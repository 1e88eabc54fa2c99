"""`warmgate login` with a real OpenID provider, and the admin commands with its tokens."""

import json
import os
import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.processes import GATEWAY_COMMAND
from tests.identity.conftest import Gateway
from tests.identity.provider import AUDIENCE, CLI, Browser, Provider

WARMGATE = GATEWAY_COMMAND[:-1]
TIMEOUT_S = 120


@dataclass(frozen=True)
class Shell:
    """Terminal of a person, with a home folder and without an admin key."""

    home: Path
    url: str
    provider: Provider

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*WARMGATE, *arguments], env=self._environ(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    def log_in(self, user: str) -> tuple[int, str]:
        """Log in while *user* confirms the code in a browser. Return the exit code and what was printed."""
        more = ("--issuer", self.provider.url, "--client-id", CLI, "--resource", AUDIENCE)
        child = subprocess.Popen(
            [*WARMGATE, "login", *more],
            env=self._environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert child.stdout is not None
        said = child.stdout.readline() + child.stdout.readline()
        address = re.search(r"https?://\S+", said)
        assert address is not None, said
        person = Browser(self.provider, user)
        person.confirm_device(address[0])
        person.close()
        rest, _ = child.communicate(timeout=TIMEOUT_S)
        return child.returncode, said + rest

    @property
    def file(self) -> Path:
        (path,) = (self.home / ".config" / "warmgate" / "logins").glob("*.json")
        return path

    def stored(self) -> Any:
        return json.loads(self.file.read_bytes())

    def _environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WARMGATE_", "XDG_"))}
        return kept | {"HOME": str(self.home), "WARMGATE_ADMIN_URL": self.url}


@pytest.fixture
def shell(gateway: Gateway, provider: Provider, tmp_path: Path) -> Shell:
    home = tmp_path / "home"
    home.mkdir()
    return Shell(home, str(gateway.http.base_url).rstrip("/"), provider)


def test_an_owner_logs_in_works_refreshes_and_logs_out(shell: Shell, gateway: Gateway, provider: Provider) -> None:
    code, said = shell.log_in("olga")
    assert (0, True) == (code, f"You are logged in to {shell.url}." in said)
    assert 0o600 == stat.S_IMODE(shell.file.stat().st_mode)
    first = shell.stored()
    assert not any(token in said for token in (first["access_token"], first["refresh_token"]))

    made = shell.run("team", "create", "made-by-olga")
    assert (0, "") == (made.returncode, made.stderr)
    (entry,) = [each for each in gateway.admin("GET", "audit").json()["data"] if each["id"] == "made-by-olga"]
    assert ("oidc:provider:olga", "owner", "create") == (entry["who"], entry["role"], entry["action"])

    shell.file.write_text(json.dumps(first | {"expires_at": 0}))
    assert 0 == shell.run("team", "list").returncode
    second = shell.stored()
    assert first["access_token"] != second["access_token"]
    assert 0o600 == stat.S_IMODE(shell.file.stat().st_mode)

    out = shell.run("logout")
    assert (0, "You are logged out.\n", "") == (out.returncode, out.stdout, out.stderr)
    form = {"grant_type": "refresh_token", "refresh_token": second["refresh_token"], "client_id": CLI}
    assert 400 == httpx.post(f"{provider.url}/token", data=form, timeout=60, trust_env=False).status_code
    assert 2 == shell.run("team", "list").returncode


def test_a_person_without_a_role_learns_why(shell: Shell) -> None:
    assert 0 == shell.log_in("alice")[0]
    listed = shell.run("team", "list")

    assert (1, "") == (listed.returncode, listed.stdout)
    assert "gives it a role" in listed.stderr


def test_a_token_of_the_api_has_no_role_in_the_administration(gateway: Gateway, provider: Provider) -> None:
    """The same issuer, key and audience: only the claims decide."""
    statuses = []
    for token in (provider.service_token(), provider.device_token("alice"), provider.device_token("olga")):
        answer = gateway.http.get("/admin/v1/teams", headers={"authorization": f"Bearer {token}"})
        statuses.append((answer.status_code, answer.json().get("error", {}).get("code")))

    assert [(403, "no_role"), (403, "no_role"), (200, None)] == statuses
