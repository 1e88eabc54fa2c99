"""Reasons why Redis failed."""

import socket
import ssl

import pytest
from redis.exceptions import AuthenticationError, BusyLoadingError, NoPermissionError, OutOfMemoryError, ResponseError
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as RedisTimeout

from gateway.storage.reasons import reason_of, refusal_of


def led_to(cause: BaseException) -> NotConnected:
    """Return an error like those of redis-py, whose text has an address."""
    fault = NotConnected("Error 111 connecting to user:secret@host:6379.")
    fault.__cause__ = cause
    return fault


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (TimeoutError(), "no answer within 0.5 s (store.timeout_s)"),
        (RedisTimeout("secret"), "no answer within 0.5 s (store.timeout_s)"),
        (AuthenticationError("WRONGPASS secret"), "wrong user or password"),
        (BusyLoadingError("LOADING secret"), "the server is still loading its data"),
        (ConnectionRefusedError(111, "secret"), "connection refused"),
        (led_to(ConnectionRefusedError(111, "secret")), "connection refused"),
        (led_to(socket.gaierror(-2, "secret")), "the host name cannot be resolved"),
        (led_to(ssl.SSLError("secret")), "the TLS handshake failed"),
        (NotConnected("Connection closed by server."), "the server closed the connection"),
        (NotConnected("secret"), "ConnectionError"),
    ],
)
def test_the_reason_for_no_answer(fault: Exception, reason: str) -> None:
    """Nothing of the error's own text is in it."""
    assert reason == reason_of(fault, 0.5)


def test_a_refused_certificate_has_a_reason() -> None:
    fault = ssl.SSLCertVerificationError("secret")
    fault.verify_message = "self-signed certificate"

    assert "the server's certificate is not accepted, self-signed certificate" == reason_of(led_to(fault), 0.5)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (OutOfMemoryError("command not allowed when secret"), "the server is out of memory"),
        (NoPermissionError("this user has no permissions to secret"), "the user in store.url has no permission"),
        (ResponseError("MISCONF Redis is configured to save"), "the server cannot write to its disk"),
        (ResponseError("CROSSSLOT Keys secret"), "ResponseError CROSSSLOT"),
    ],
)
def test_the_reason_for_a_refusal(fault: ResponseError, reason: str) -> None:
    assert reason == refusal_of(fault)
