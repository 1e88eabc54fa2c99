"""Rules for settings: field types that check single values, and contradictions between several values."""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Annotated, Final, Literal, TypeVar
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, Field, SecretStr
from pydantic_core import PydanticCustomError

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.engine_fields import ENGINE_FIELDS
from gateway.protocol.field_names import did_you_mean, dotted, listed
from gateway.protocol.field_types import Alias, AllowedModel, rule
from gateway.protocol.worker_address import is_printable_ascii

SQLITE: Final = "sqlite:///"
"""Prefix of a store URL that names a SQLite file."""

GroupT = TypeVar("GroupT", bound=BaseModel)


# ---- for single values


def _check_engine_field(value: str) -> str:
    if value not in ENGINE_FIELDS:
        raise rule(f"allowed are {listed(ENGINE_FIELDS)}{did_you_mean(value, ENGINE_FIELDS)}")
    return value


def _check_origin(value: str) -> str:
    if value != "*" and not re.fullmatch(
        r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", value.lower()
    ):
        raise rule("the value must be an origin such as https://chat.example.com, without a path, or '*'")
    return value.lower()


def _check_secret(value: SecretStr) -> SecretStr:
    if not is_printable_ascii(value.get_secret_value()):
        raise rule("the value must be printable ASCII without spaces or line breaks", shows_value=False)
    return value


def _check_header(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", value):
        raise rule("the value must be the name of an HTTP header")
    return value.lower()


def _check_path(value: str) -> str:
    if not value.startswith("/") or not is_printable_ascii(value):
        raise rule("the value must be a path that begins with '/'")
    return value


def _check_file(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise rule("the value must be the path of a file")
    return value


def _check_zmq(value: str) -> str:
    """Raise an error unless *value* is a ZeroMQ address. In an address to bind, ``*`` means every network interface."""
    found = re.fullmatch(r"tcp://(\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})|ipc://[!-~]+", value)
    if found is None or not 0 < int(found[2] or 1) < 65536:
        raise rule("the value must be a ZeroMQ address such as tcp://10.0.0.5:5557")
    return value


def _check_variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise rule("the value must be the name of an environment variable", shows_value=False)
    return value


def _check_sha256(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[0-9a-f]{64}", value.get_secret_value()):
        raise rule("the value must be 64 hexadecimal digits in lower case", shows_value=False)
    return value


def _check_time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        raise rule("the value must be a time zone such as Europe/Berlin") from None
    except KeyError:
        raise rule("the value must be a time zone that this machine knows, such as Europe/Berlin") from None
    return value


def _check_store(value: str) -> str:
    if not re.fullmatch(rf"{SQLITE}.+|(rediss?|unix)://.+", value):
        raise rule("the value must begin with sqlite:///, redis://, rediss:// or unix://", shows_value="@" not in value)
    return value


def _check_object(value: str) -> str:
    """Check the name of a Kubernetes namespace or Service (RFC 1123)."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", value):
        raise rule("the value must be a Kubernetes name: lower-case letters, digits, dots and dashes")
    return value


def _check_selector(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise rule("the value must be a label selector such as app=vllm,model in (a, b)")
    return value


def _check_host(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})", value):
        raise rule("the value must be a host name")
    return value


def port_name(value: str) -> str:
    """Return *value* if it is the name (RFC 6335) or the number of a port.

    Raises:
        PydanticCustomError: if *value* is neither.
    """
    if value.isdecimal():
        if len(value) > 5 or not 0 < int(value) < 65536:
            raise rule("the value must be a port between 1 and 65535")
    elif not re.fullmatch(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", value):
        raise rule("the value must be a port number, or a name of at most 15 lower-case letters, digits and dashes")
    return value


TEXT_OR_NUMBER: Final = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
"""JSON Schema for a numeric text that is allowed without quotation marks."""

Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
EngineField = Annotated[str, AfterValidator(_check_engine_field)]
HeaderName = Annotated[str, AfterValidator(_check_header)]
FileName = Annotated[str, AfterValidator(_check_file)]
HostName = Annotated[str, AfterValidator(_check_host)]
ObjectName = Annotated[str, AfterValidator(_check_object)]
LabelSelector = Annotated[str, AfterValidator(_check_selector)]
UrlPath = Annotated[str, AfterValidator(_check_path)]
ZmqAddress = Annotated[str, AfterValidator(_check_zmq)]
VariableName = Annotated[str, AfterValidator(_check_variable)]
Sha256 = Annotated[SecretStr, AfterValidator(_check_sha256)]
Names = Annotated[tuple[Alias, ...], Field(strict=False)]
AllowedModels = Annotated[tuple[AllowedModel, ...], Field(strict=False)]
TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
StoreUrl = Annotated[str, AfterValidator(_check_store)]
OnUnavailable = Literal["share", "fail_closed"]
Share = Annotated[float, Field(ge=0, le=1)]
Burst = Annotated[float, Field(gt=0, le=1)]
Origin = Annotated[str, AfterValidator(_check_origin)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


# ---- between values


def is_local_zmq(address: str) -> bool:
    """Return whether only this machine can reach a ZeroMQ socket that is bound to *address*."""
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if address.startswith("ipc://") or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def unless_contradictory(group: GroupT, found: Sequence[Contradiction]) -> GroupT:
    """Return *group* if *found* contains no contradictions. Otherwise, raise an error.

    Raises:
        PydanticCustomError: if *found* has contradictions. The type is ``contradiction``, and the context has them all.
    """
    if found:
        text = "; ".join(f"{dotted(each.place)} {each.text} {dotted(each.other)}".rstrip() for each in found)
        raise PydanticCustomError("contradiction", "{text}", {"text": text, "contradictions": list(found)})
    return group
