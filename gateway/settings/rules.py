"""The rules for settings: for single values, as types of fields, and between values, as contradictions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Literal, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, Field, SecretStr, WithJsonSchema
from pydantic_core import PydanticCustomError

from gateway.engine_fields import ENGINE_FIELDS
from gateway.settings.names import Place, did_you_mean, dotted, listed
from routing.strategies import NAMES

GroupT = TypeVar("GroupT", bound=BaseModel)


# ---- for single values


def _rule(allowed: str, *, shows_value: bool = True) -> PydanticCustomError:
    return PydanticCustomError("rule" if shows_value else "rule_on_private_value", "{allowed}", {"allowed": allowed})


def _is_printable_ascii(text: str) -> bool:
    return bool(text) and all("!" <= character <= "~" for character in text)


def _check_strategy(value: str) -> str:
    if value not in NAMES:
        raise _rule(f"allowed are {listed(NAMES)}{did_you_mean(value, NAMES)}")
    return value


def _check_engine_field(value: str) -> str:
    if value not in ENGINE_FIELDS:
        raise _rule(f"allowed are {listed(ENGINE_FIELDS)}{did_you_mean(value, ENGINE_FIELDS)}")
    return value


def _check_url(value: str) -> str:
    # An address may hold a password before "@" or a token behind "?": such a value is not repeated.
    private = any(mark in value for mark in "@?#")
    try:
        parts = urlsplit(value)
        valid = _is_printable_ascii(value) and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise _rule("it must be an http:// or https:// address with a host", shows_value=not private)
    if private:
        raise _rule("it must not hold credentials, a query or a fragment", shows_value=False)
    return value.rstrip("/")


def _check_worker_url(value: str) -> str:
    if value.endswith("/v1"):  # as OpenAI's SDKs want it; here every request would be a 404, from a worker that is up
        raise _rule("it must end before /v1: that is in the path of every request")
    return value


def _check_origin(value: str) -> str:
    if value != "*" and not re.fullmatch(
        r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", value.lower()
    ):
        raise _rule("it must be an origin such as https://chat.example.com, without a path, or '*'")
    return value.lower()


def _check_token(value: str) -> str:
    if not _is_printable_ascii(value):
        raise _rule("it must be printable ASCII without spaces")
    return value


def _check_secret(value: SecretStr) -> SecretStr:
    if not _is_printable_ascii(value.get_secret_value()):
        raise _rule("it must be printable ASCII without spaces or line ends", shows_value=False)
    return value


def _check_model_name(value: str) -> str:
    if not value.strip() or not value.isprintable() or "*" in value:
        raise _rule("it must be a name without '*' (patterns are for aliases)")
    return value


def _check_alias(value: str) -> str:
    if not value.strip() or not value.isprintable() or "*" in value[:-1]:
        raise _rule("it must be a name, or a prefix with one '*' at its end")
    return value


def _check_header(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", value):
        raise _rule("it must be the name of an HTTP header")
    return value.lower()


def _check_path(value: str) -> str:
    if not value.startswith("/") or not _is_printable_ascii(value):
        raise _rule("it must be a path that begins with '/'")
    return value


def _check_file(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise _rule("it must be the path of a file")
    return value


def _check_zmq(value: str) -> str:
    """As ZeroMQ writes addresses; ``*`` for every interface, where something is bound."""
    found = re.fullmatch(r"tcp://(\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})|ipc://[!-~]+", value)
    if found is None or not 0 < int(found[2] or 1) < 65536:
        raise _rule("it must be a ZeroMQ address such as tcp://10.0.0.5:5557")
    return value


def _check_entity(value: str) -> str:
    # What YAML and JSON take for something else than text is no name: somebody would write it without quotes.
    if not re.fullmatch(r"(?!(null|true|false)$)(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise _rule("it must be a name with a letter, of at most 63 letters, digits, dots, dashes and underscores")
    return value


def _check_variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise _rule("it must be the name of an environment variable", shows_value=False)
    return value


def _check_sha256(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[0-9a-f]{64}", value.get_secret_value()):
        raise _rule("it must be 64 hexadecimal digits in lower case", shows_value=False)
    return value


def _check_network(value: str) -> str:
    try:
        return str(ip_network(value))
    except ValueError:
        raise _rule("it must be an address or a network such as 10.0.0.0/8") from None


def _check_time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        raise _rule("it must be a time zone such as Europe/Berlin") from None
    except KeyError:
        raise _rule("it must be a time zone such as Europe/Berlin, and known on this machine") from None
    return value


def _check_store(value: str) -> str:
    if not re.fullmatch(r"sqlite:///.+|(rediss?|unix)://.+", value):
        raise _rule("it must begin with sqlite:///, redis://, rediss:// or unix://", shows_value="@" not in value)
    return value


def _check_object(value: str) -> str:
    """RFC 1123, as Kubernetes has it for names of namespaces and, without dots, of services."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", value):
        raise _rule("it must be a name of Kubernetes: lower-case letters, digits, dots and dashes")
    return value


def _check_selector(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise _rule("it must be a label selector such as app=vllm,model in (a, b)")
    return value


def _check_host(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})", value):
        raise _rule("it must be the name of a host")
    return value


def port_name(value: str) -> str:
    """*value*, if it is the name of a port (RFC 6335) or its number.

    Raises:
        PydanticCustomError: it is neither.
    """
    if value.isdecimal():
        if len(value) > 5 or not 0 < int(value) < 65536:
            raise _rule("it must be a port between 1 and 65535")
    elif not re.fullmatch(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", value):
        raise _rule("it must be the number of a port, or its name of at most 15 lower-case letters, digits and dashes")
    return value


TEXT_OR_NUMBER: Final = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
"""JSON Schema of a text of digits that may be written without quotes."""

Url = Annotated[str, AfterValidator(_check_url)]
WorkerUrl = Annotated[Url, AfterValidator(_check_worker_url)]
Token = Annotated[str, AfterValidator(_check_token)]
Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
StrategyName = Annotated[str, AfterValidator(_check_strategy), WithJsonSchema({"enum": list(NAMES)})]
EngineField = Annotated[str, AfterValidator(_check_engine_field)]
ModelName = Annotated[str, AfterValidator(_check_model_name)]
Alias = Annotated[str, AfterValidator(_check_alias)]
HeaderName = Annotated[str, AfterValidator(_check_header)]
FileName = Annotated[str, AfterValidator(_check_file)]
HostName = Annotated[str, AfterValidator(_check_host)]
ObjectName = Annotated[str, AfterValidator(_check_object)]
LabelSelector = Annotated[str, AfterValidator(_check_selector)]
UrlPath = Annotated[str, AfterValidator(_check_path)]
ZmqAddress = Annotated[str, AfterValidator(_check_zmq)]
EntityName = Annotated[str, AfterValidator(_check_entity)]
VariableName = Annotated[str, AfterValidator(_check_variable)]
Sha256 = Annotated[SecretStr, AfterValidator(_check_sha256)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_check_network)], ...], Field(strict=False)]
Names = Annotated[tuple[Alias, ...], Field(strict=False)]
TimeZone = Annotated[str, AfterValidator(_check_time_zone)]
StoreUrl = Annotated[str, AfterValidator(_check_store)]
PriorityName = Literal["high", "normal", "low"]
WhenAway = Literal["share", "closed"]
Share = Annotated[float, Field(ge=0, le=1)]
Burst = Annotated[float, Field(gt=0, le=1)]
Origin = Annotated[str, AfterValidator(_check_origin)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


# ---- between values


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Values that are good alone and not together: a sentence of *place*, *text*, and *other* where there is one."""

    place: Place
    text: str
    other: Place = ()


def repeated(values: Sequence[tuple[Place, str]]) -> list[Contradiction]:
    """One contradiction for each value that an earlier place has already."""
    first: dict[str, Place] = {}
    found: list[Contradiction] = []
    for place, value in values:
        if value in first:
            text = f"is {value!r}; each must be its own, and this is that of"
            found.append(Contradiction(place, text, first[value]))
        else:
            first[value] = place
    return found


def ambiguous(workers: Sequence[tuple[Place, str, str]]) -> list[Contradiction]:
    """One contradiction for each worker (place, id, url) whose id stands for another url at an earlier place.

    The index of prefixes knows workers by their id, whichever model they serve.
    """
    first: dict[str, tuple[Place, str]] = {}
    found: list[Contradiction] = []
    for place, worker_id, url in workers:
        earlier, earlier_url = first.setdefault(worker_id, (place, url))
        if endpoint(url) != endpoint(earlier_url):
            text = f"is {worker_id!r}; an id stands for one url in all models, and this one stands already for"
            found.append(Contradiction((*place, "id"), text, (*earlier, "url")))
    return found


def is_local_zmq(address: str) -> bool:
    """Whether only this machine can reach a socket that is bound at *address*, a `ZmqAddress`."""
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if address.startswith("ipc://") or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def endpoint(url: str) -> str:
    """*url* in the one form that two spellings of the same address share."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{parts.hostname}:{port}{parts.path}"


def id_of_address(url: str) -> str:
    """A worker's id where none was given: the same for every spelling of *url*, and without the address in it.

    Ids reach callers in headers and errors, and addresses inside the cluster are not theirs to see.
    """
    return f"worker-{sha256(endpoint(url).encode()).hexdigest()[:8]}"


def unless_contradictory(group: GroupT, found: Sequence[Contradiction]) -> GroupT:
    """*group*, when nothing was *found*.

    Raises:
        PydanticCustomError: of type ``contradiction``, with all that was found in its context.
    """
    if found:
        text = "; ".join(f"{dotted(each.place)} {each.text} {dotted(each.other)}".rstrip() for each in found)
        raise PydanticCustomError("contradiction", "{text}", {"text": text, "contradictions": list(found)})
    return group
