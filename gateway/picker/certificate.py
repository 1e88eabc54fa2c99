"""Certificate of the picker for clients that call it over TLS.

Gateways of the Gateway API Inference Extension encrypt the connection to a picker, but accept any certificate. Without
a certificate in files, the picker makes one whenever it starts.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME: Final = "warmgate-picker"
"""Name in the certificate."""
_BEGIN: Final = datetime(2020, 1, 1, tzinfo=UTC)
_END: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""End of a certificate that has no end (RFC 5280, 4.1.2.5)."""


def server_context() -> ssl.SSLContext:
    """Return the TLS settings of a server of HTTP/2, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    return context


def self_signed_context() -> ssl.SSLContext:
    """Return the TLS settings of a server of HTTP/2, with a new key and certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = server_context()
    with _file(private + certificate.public_bytes(serialization.Encoding.PEM)) as path:
        context.load_cert_chain(path)
    return context


@contextmanager
def _file(data: bytes) -> Iterator[str]:
    """Yield the path of a file with *data*, which only this process can read. On Linux, it is not on a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:  # pragma: no cover  # macOS
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
