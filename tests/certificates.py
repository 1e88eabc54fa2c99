"""Certificates as the authorities of older EKS clusters make them, and verification as newer Pythons do it."""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CONFIGURATION = """
[req]
distinguished_name = subject
prompt = no
[subject]
CN = kubernetes
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = none
authorityKeyIdentifier = none
[server]
basicConstraints = critical, CA:FALSE
subjectAltName = {names}
subjectKeyIdentifier = none
authorityKeyIdentifier = none
"""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files: an authority, and a server that it has signed, with the server's key."""

    authority: Path
    server: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, self.key)
        return context


def without_key_identifiers(folder: Path, names: str = "IP:127.0.0.1, DNS:localhost") -> Certificates:
    """Make certificates in *folder*, for a server of *names*, without the key identifiers that RFC 5280 asks for."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    configuration = folder / "openssl.cnf"
    configuration.write_text(CONFIGURATION.format(names=names), encoding="utf-8")
    authority, authority_key = folder / "ca.crt", folder / "ca.key"
    server, key = folder / "server.crt", folder / "server.key"
    command: list[str | Path] = ["openssl", "req", "-x509", "-config", configuration, "-days", "2", "-nodes"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    signed: list[str | Path] = ["-CA", authority, "-CAkey", authority_key, "-subj", "/CN=server"]
    _run(*command, "-extensions", "authority", "-out", authority, "-keyout", authority_key)
    _run(*command, "-extensions", "server", *signed, "-out", server, "-keyout", key)
    return Certificates(authority, server, key)


def verify_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `ssl.create_default_context` set the flags that it sets from Python 3.13 on, whatever Python runs this."""
    create = ssl.create_default_context

    def strict(*arguments: Any, **options: Any) -> ssl.SSLContext:
        context = create(*arguments, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)
