"""Reasons why Redis does not do what it is asked."""

import socket
import ssl

import pytest
from redis.exceptions import AuthenticationError, BusyLoadingError, NoPermissionError, OutOfMemoryError, ResponseError
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as RedisTimeout

from gateway.storage.reasons import reason_of, refusal_of


def led_to(cause: BaseException) -> NotConnected:
    """As redis-py raises it: its text has an address."""
    fault = NotConnected("Error 111 connecting to user:secret@host:6379.")
    fault.__cause__ = cause
    return fault


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (TimeoutError(), "no answer within 0.5 s (store.timeout_s)"),
        (RedisTimeout("secret"), "no answer within 0.5 s (store.timeout_s)"),
        (AuthenticationError("WRONGPASS secret"), "wrong user or password"),
        (BusyLoadingError("LOADING secret"), "it still loads its data"),
        (ConnectionRefusedError(111, "secret"), "connection refused"),
        (led_to(ConnectionRefusedError(111, "secret")), "connection refused"),
        (led_to(socket.gaierror(-2, "secret")), "its host name cannot be resolved"),
        (led_to(ssl.SSLError("secret")), "TLS failed"),
        (NotConnected("Connection closed by server."), "it closed the connection"),
        (NotConnected("secret"), "ConnectionError"),
    ],
)
def test_why_no_answer_came(fault: Exception, reason: str) -> None:
    """In words of a closed set: nothing of the error's own text."""
    assert reason == reason_of(fault, 0.5)


def test_a_certificate_that_is_not_accepted_is_told_with_the_reason() -> None:
    fault = ssl.SSLCertVerificationError("secret")
    fault.verify_message = "self-signed certificate"

    assert "its certificate is not accepted, self-signed certificate" == reason_of(led_to(fault), 0.5)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (OutOfMemoryError("command not allowed when secret"), "its memory is full"),
        (NoPermissionError("this user has no permissions to secret"), "its user may not run this command"),
        (ResponseError("MISCONF Redis is configured to save"), "it cannot write to its disk"),
        (ResponseError("CROSSSLOT Keys secret"), "ResponseError CROSSSLOT"),
    ],
)
def test_why_it_refused(fault: ResponseError, reason: str) -> None:
    assert reason == refusal_of(fault)
