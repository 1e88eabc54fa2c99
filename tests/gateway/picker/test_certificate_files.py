"""A certificate in files, which change while the picker runs."""

import logging
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from gateway.picker.certificate_files import CertificateFiles
from tests.certificates import Certificates, without_key_identifiers


def made(folder: Path, name: str) -> Certificates:
    """Make certificates in a new folder *name*."""
    (folder / name).mkdir()
    return without_key_identifiers(folder / name)


def test_changed_files_count_for_new_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A certificate without its new key is not used, and the new one is used as soon as both are there."""
    caplog.set_level(logging.INFO, "gateway.picker.certificate_files")
    first, second = made(tmp_path, "first"), made(tmp_path, "second")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(first.server, certificate)
    shutil.copy(first.key, key)
    files = CertificateFiles(certificate, key)
    begin = files.context()
    unchanged = files.context()
    certificate.unlink()
    shutil.copy(second.server, certificate)
    half = [files.context(), files.context()]
    key.unlink()
    missing = files.context()
    shutil.copy(second.key, key)
    new = files.context()

    assert (begin, [begin, begin], begin) == (unchanged, half, missing)
    assert new is not begin
    assert new is files.context()
    assert ["WARNING", "WARNING", "INFO"] == [record.levelname for record in caplog.records]
    assert caplog.messages[-1] == f"The picker uses the changed certificate in {certificate}"
    assert caplog.messages[-2] == (
        f"The picker keeps its former certificate, because {certificate} and {key} cannot be used: FileNotFoundError"
    )


def test_an_encrypted_key_is_an_error(tmp_path: Path) -> None:
    """Nothing asks for the password at the terminal."""
    files = made(tmp_path, "one")
    key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    files.key.write_bytes(encrypted)

    with pytest.raises(ssl.SSLError):
        CertificateFiles(files.server, files.key)
