"""Access to the Kubernetes API server: its address, its certificates, and the gateway's credentials."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from gateway.backends.upstream.tls import accepting_missing_identifiers
from gateway.workers.kubernetes.kubernetes_error import KubernetesError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder that every pod has, with the files ``token``, ``ca.crt`` and ``namespace``
(https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
"""
IN_CLUSTER = "https://kubernetes.default.svc"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials as read from files at one point in time."""

    headers: dict[str, str] = field(repr=False)
    tls: ssl.SSLContext | None
    """TLS context, or None if the address of the API server is not an https address."""
    namespace: str | None
    """Kubernetes namespace in which the gateway runs, or None if it is unknown."""


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """Address of the API server and paths of credential files. A path of None selects the file of the pod's service
    account. With plain http, the service account is not used.
    """

    url: str = IN_CLUSTER
    token_file: Path | None = None
    ca_file: Path | None = None
    namespace: str | None = None
    service_account: Path = SERVICE_ACCOUNT

    def read(self) -> Credentials:
        """Read the credentials from files. Do not cache them, because tokens change about hourly and certificates
        change occasionally.

        Raises:
            KubernetesError: if a required file cannot be read or has invalid content.
        """
        is_https = self.url.startswith("https://")
        token_file = self.token_file or (self.service_account / "token" if is_https else None)
        ca_file = self.ca_file or self.service_account / "ca.crt"
        headers = {} if token_file is None else {"authorization": f"Bearer {_token_in(token_file)}"}
        return Credentials(headers, _tls(ca_file) if is_https else None, self.namespace or self._own_namespace())

    def _own_namespace(self) -> str | None:
        try:
            return (self.service_account / "namespace").read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None


def _token_in(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except OSError as fault:
        raise KubernetesError(f"the token in {file} cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token.isascii() or not token.isprintable() or not token:
        raise KubernetesError(f"{file} contains no token")
    return token


def _tls(file: Path) -> ssl.SSLContext:
    try:
        return accepting_missing_identifiers(ssl.create_default_context(cafile=file))
    except OSError as fault:
        why = "the file has no certificate" if isinstance(fault, ssl.SSLError) else fault.strerror
        raise KubernetesError(f"the certificates in {file} cannot be read: {why}") from None
