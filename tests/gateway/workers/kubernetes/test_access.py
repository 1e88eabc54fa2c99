"""Address and credentials of the API server."""

from pathlib import Path

import pytest

from gateway.workers.kubernetes.access import ApiAccess, Credentials
from gateway.workers.kubernetes.kubernetes_error import KubernetesError

URL = "https://10.0.0.1"


@pytest.fixture
def account(tmp_path: Path, certificate: tuple[Path, Path]) -> Path:
    """Files that each pod has."""
    (tmp_path / "token").write_text("t-1\n")
    (tmp_path / "namespace").write_text("models")
    (tmp_path / "ca.crt").write_bytes(certificate[0].read_bytes())
    return tmp_path


def test_a_pod_has_all_that_is_needed(account: Path) -> None:
    """Token, certificates and namespace of its service account."""
    read = ApiAccess(URL, service_account=account).read()

    assert ({"authorization": "Bearer t-1"}, "models") == (read.headers, read.namespace)
    assert read.tls is not None
    assert 1 == read.tls.cert_store_stats()["x509"]


def test_the_token_is_read_each_time(account: Path) -> None:
    """It is replaced about hourly."""
    access = ApiAccess(URL, service_account=account)
    before = access.read().headers
    (account / "token").write_text("t-2")

    assert ["Bearer t-1", "Bearer t-2"] == [each["authorization"] for each in (before, access.read().headers)]


def test_the_settings_come_before_the_service_account(account: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("t-3")
    read = ApiAccess(URL, token_file=other, namespace="here", service_account=account).read()

    assert ("Bearer t-3", "here") == (read.headers["authorization"], read.namespace)


def test_over_plain_http_nothing_is_said_that_is_not_asked_for(account: Path, tmp_path: Path) -> None:
    """``kubectl proxy`` needs nothing."""
    assert Credentials({}, None, "models") == ApiAccess("http://127.0.0.1:8001", service_account=account).read()
    assert Credentials({}, None, None) == ApiAccess("http://127.0.0.1:8001", service_account=tmp_path / "none").read()


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("token", None, "the token in .* cannot be read: No such file or directory"),
        ("token", b"", "contains no token"),
        ("token", b"a\nb", "contains no token"),
        ("token", b"\xff", "contains no token"),
        ("ca.crt", None, "the certificates in .* cannot be read: No such file or directory"),
        ("ca.crt", b"nothing", "the certificates in .* cannot be read: the file has no certificate"),
    ],
)
def test_what_cannot_be_used_is_reported(account: Path, file: str, content: bytes | None, why: str) -> None:
    """Without what is in it."""
    if content is None:
        (account / file).unlink()
    else:
        (account / file).write_bytes(content)
    with pytest.raises(KubernetesError, match=why):
        ApiAccess(URL, service_account=account).read()


def test_no_representation_shows_the_token(account: Path) -> None:
    assert "t-1" not in repr(ApiAccess(URL, service_account=account).read())
