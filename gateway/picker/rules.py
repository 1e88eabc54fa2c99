"""Settings of the endpoint picker, as plain values."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PickerRules:
    """Settings of the endpoint picker and of its gRPC server."""

    listen: str = "127.0.0.1:9002"
    """Address and port of the gRPC server. Port 0 selects any free port."""
    certificate: Path | None = None
    """File with the certificate for TLS and its chain. None means a certificate that the picker makes for itself."""
    key: Path | None = None
    """File with the private key of the certificate."""
    grace_s: float = 30.0
    """Seconds that running requests have to complete after the server has begun to stop."""
    max_body_bytes: int = 8 * 2**20
    max_buffered_bytes: int = 2**20
    """Maximum size of a body that Envoy keeps in memory in the mode BUFFERED."""
    max_running: int = 20_000
    """Maximum number of requests that run or wait, with those that Envoy has ended and that are not cleaned up."""
    max_fallbacks: int = 2
    """Maximum number of further endpoints that Envoy gets for its retries."""
    endpoint_scores: bool = False
    """Whether Envoy gets the scores of the endpoints among which the picker has chosen."""
    session_header_decides: bool = False
    """Whether Envoy sends requests with a session header to their workers before it has sent their bodies."""
    is_conformance_test: bool = False
    """Whether callers choose endpoints by a header, and answers name the endpoint, as conformance tests require."""
