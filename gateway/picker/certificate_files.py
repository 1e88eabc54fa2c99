"""Certificate of the picker in files, which can change while the picker runs."""

import logging
import ssl
from pathlib import Path

from gateway.picker.certificate import server_context

_log = logging.getLogger(__name__)

_Version = tuple[int, int, int]
"""Time of the last change, size and inode of a file."""
_Versions = tuple[_Version | None, _Version | None]
"""Versions of the certificate and of the key. None stands for a file that is missing."""


class CertificateFiles:
    """TLS settings with the certificate and the key in two files. Changed files count for new connections.

    If changed files cannot be used, the former certificate stays in use, and a warning is logged once.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files.

        Raises:
            OSError: if a file cannot be read, or if the key does not belong to the certificate.
        """
        self._certificate = certificate
        self._key = key
        self._versions = self._found_versions()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings for a new connection."""
        versions = self._found_versions()
        if versions != self._versions:
            self._versions = versions
            try:
                self._context = self._read()
            except OSError as fault:  # includes errors of TLS
                text = "The picker keeps its former certificate, because %s and %s cannot be used: %s"
                _log.warning(text, self._certificate, self._key, type(fault).__name__)
            else:
                _log.info("The picker uses the changed certificate in %s", self._certificate)
        return self._context

    def _read(self) -> ssl.SSLContext:
        context = server_context()
        # An encrypted key is an error. Without a password, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(self._certificate, self._key, password=bytes)
        return context

    def _found_versions(self) -> _Versions:
        return _version(self._certificate), _version(self._key)


def _version(path: Path) -> _Version | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino
