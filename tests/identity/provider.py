"""oidc-provider as a process, with keys that can be rotated, and a clock that can be wrong."""

import json
import random
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from benchmarks.processes import Child, Processes
from tests.identity.environment import BIN, PROGRAM

AUDIENCE = "urn:warmgate"
SERVICE, SERVICE_SECRET = "service", "the-secret-of-the-service"
"""Client of the grant client_credentials, for programs."""
CLI = "warmgate-cli"
"""Public client of the device grant, and of the authorization code grant with PKCE and any port of this machine."""
CONSOLE, CONSOLE_SECRET = "warmgate-console", "the-secret-of-the-console"
"""Confidential client of the authorization code grant with PKCE."""

_FORM = re.compile(r'<form[^>]*action="(?P<action>[^"]+)"')


def lasting_port() -> int:
    """Return a free port that no outgoing connection gets while the provider is down, because it is below 32,768."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("100 ports are in use")


def private_key(key_id: str) -> dict[str, Any]:
    """Return a new RSA key as a private JSON Web Key."""
    made = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 2048), as_dict=True)
    del made["key_ops"]
    return {**made, "kid": key_id, "use": "sig", "alg": "RS256"}


@dataclass
class Provider:
    """OpenID provider that is a process of *processes*. Its memory, such as sessions, is lost when it stops."""

    processes: Processes
    folder: Path
    groups: Mapping[str, Sequence[str]]
    """Groups of people and of clients, by id."""
    console_redirects: Sequence[str] = ("http://127.0.0.1:1/console/login/callback",)
    console_logouts: Sequence[str] = ("http://127.0.0.1:1/console/login",)
    backchannel_logout_uri: str | None = None
    lifetime_s: int = 600
    port: int = field(default_factory=lasting_port)
    keys: list[dict[str, Any]] = field(default_factory=lambda: [private_key("first")])
    """Private keys of the provider. The first one signs."""
    _process: Child | None = None
    _starts: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self, *, clock_ahead_s: float = 0.0) -> None:
        """Start the provider, whose clock is *clock_ahead_s* ahead of the clock of the machine."""
        self._starts += 1
        path = self.folder / f"provider-{self._starts}.json"
        path.write_text(json.dumps(self._settings(clock_ahead_s)))
        command = [str(BIN / "node"), str(PROGRAM), str(path)]
        self._process = self.processes.start(f"provider-{self._starts}", command)
        self._process.wait_for_ready_line(timeout_s=60)

    def stop(self) -> None:
        assert self._process is not None
        self._process.stop()  # with its descendants: the command of the wheel starts the true one
        self._process = None

    def rotate(self, key_id: str) -> None:
        """Sign with a new key, and publish only this one: the harshest rotation."""
        self.stop()
        self.keys = [private_key(key_id)]
        self.start()

    def service_token(self, client: str = SERVICE, secret: str = SERVICE_SECRET) -> str:
        """Return an access token of the client *client* itself."""
        form = {"grant_type": "client_credentials", "resource": AUDIENCE, "scope": "use"}
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as http:
            response = http.post("/token", data=form, auth=(client, secret))
        assert 200 == response.status_code, response.text
        token: str = response.json()["access_token"]
        return token

    def device_token(self, user: str) -> str:
        """Return an access token of *user*, who signs in with a device and a new session."""
        with httpx.Client(base_url=self.url, trust_env=False, timeout=60) as http:
            asked = {"client_id": CLI, "scope": "openid profile", "resource": AUDIENCE}
            device = http.post("/device/auth", data=asked).json()
            browser = Browser(self, user)
            browser.confirm_device(device["verification_uri_complete"])
            browser.close()
            grant = "urn:ietf:params:oauth:grant-type:device_code"
            form = {"grant_type": grant, "device_code": device["device_code"], "client_id": CLI}
            response = http.post("/token", data=form)
        assert 200 == response.status_code, response.text
        token: str = response.json()["access_token"]
        return token

    def _settings(self, clock_ahead_s: float) -> dict[str, Any]:
        console: dict[str, Any] = {
            "client_id": CONSOLE,
            "client_secret": CONSOLE_SECRET,
            "redirect_uris": list(self.console_redirects),
            "post_logout_redirect_uris": list(self.console_logouts),
            "grant_types": ["authorization_code", "refresh_token"],
        }
        if self.backchannel_logout_uri is not None:
            console |= {"backchannel_logout_uri": self.backchannel_logout_uri}
            console |= {"backchannel_logout_session_required": True}
        cli = {
            "client_id": CLI,
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            "redirect_uris": ["http://127.0.0.1/callback"],
            "grant_types": ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
        }
        service = {
            "client_id": SERVICE,
            "client_secret": SERVICE_SECRET,
            "redirect_uris": [],
            "response_types": [],
            "grant_types": ["client_credentials"],
        }
        return {
            "port": self.port,
            "audience": AUDIENCE,
            "keys": self.keys,
            "groups": dict(self.groups),
            "clients": [console, cli, service],
            "lifetime_s": self.lifetime_s,
            "clock_ahead_s": clock_ahead_s,
        }


class Browser:
    """Person with a browser, who signs in at the provider as *user*."""

    def __init__(self, provider: Provider, user: str) -> None:
        self._provider = provider
        self._user = user
        self._http = httpx.Client(trust_env=False, timeout=60, follow_redirects=False)

    def close(self) -> None:
        self._http.close()

    def visit(self, url: str) -> str:
        """Open *url* at the provider, fill in its forms, and return the first address elsewhere to which it leads."""
        response = self._http.get(url)
        for _ in range(20):
            if response.is_redirect:
                target = urljoin(str(response.url), response.headers["location"])
                if not target.startswith(self._provider.url):
                    return target
                response = self._http.get(target)
            else:
                response = self._fill_in(response)
        raise AssertionError(response.text)

    def confirm_device(self, verification_url: str) -> str:
        """Confirm a device at *verification_url*, which contains the code of the device, and return the last page."""
        response = self._http.get(verification_url)
        for _ in range(20):
            if response.is_redirect:
                response = self._http.get(urljoin(str(response.url), response.headers["location"]))
            elif "<form" not in response.text:
                return response.text
            else:
                response = self._fill_in(response)
        raise AssertionError(response.text)

    def _fill_in(self, response: httpx.Response) -> httpx.Response:
        form = _FORM.search(response.text)
        assert form is not None, response.text
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', response.text)
        said = dict(hidden)
        if 'name="login"' in response.text:
            said |= {"login": self._user, "password": "any"}
        code = re.search(r'value="([^"]+)"[^>]*name="user_code"', response.text)
        if code is not None:
            said["user_code"] = code[1]
        if 'name="logout"' in response.text:
            said["logout"] = "yes"
        return self._http.post(urljoin(str(response.url), form["action"]), data=said)


def query_of(url: str) -> dict[str, str]:
    """Return the parameters in the query of *url*, each once."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
