"""Types of fields for settings and API request bodies, and the base class of both."""

import re
from ipaddress import ip_network
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from gateway.protocol.field_names import did_you_mean, listed
from gateway.protocol.worker_address import is_http_address, is_printable_ascii, is_private_address
from routing.strategies import NAMES


class Group(BaseModel):
    """Base class of frozen groups of fields. It rejects unknown fields, does not convert types, and shows no values in
    errors.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )


def rule(allowed: str, *, shows_value: bool = True) -> PydanticCustomError:
    """Return the error for a value that breaks the rule *allowed*, such as "the value must be a name"."""
    return PydanticCustomError("rule" if shows_value else "rule_on_private_value", "{allowed}", {"allowed": allowed})


def _check_strategy(value: str) -> str:
    if value not in NAMES:
        raise rule(f"allowed are {listed(NAMES)}{did_you_mean(value, NAMES)}")
    return value


def _check_url(value: str) -> str:
    private = is_private_address(value)
    if not is_http_address(value):
        raise rule("the value must be an http:// or https:// address with a host", shows_value=not private)
    if private:
        raise rule("the value must not contain credentials, a query or a fragment", shows_value=False)
    return value.rstrip("/")


def _check_worker_url(value: str) -> str:
    if value.endswith("/v1"):  # as OpenAI's SDKs want it; here every request would be a 404, from a worker that is up
        raise rule("the value must not include /v1, which every request's path already has")
    return value


def _check_token(value: str) -> str:
    if not is_printable_ascii(value):
        raise rule("the value must be printable ASCII without spaces")
    return value


GROUP_PREFIX: Final = "group:"
"""Beginning of the names of model groups in lists of models. Names of models cannot begin in this way."""


def _check_model_name(value: str) -> str:
    if not value.strip() or not value.isprintable() or "*" in value:
        raise rule("the value must be a name without '*' (patterns are for aliases)")
    return _check_not_a_group(value)


def _check_alias(value: str) -> str:
    if not value.strip() or not value.isprintable() or "*" in value[:-1]:
        raise rule("the value must be a name, or a prefix with one '*' at its end")
    return _check_not_a_group(value)


def _check_not_a_group(value: str) -> str:
    if value.startswith(GROUP_PREFIX):
        raise rule(f"a model name must not begin with '{GROUP_PREFIX}', which stands for a model group")
    return value


def _check_allowed_model(value: str) -> str:
    """Check an entry of a list of allowed models, which can also be a model group."""
    if not value.startswith(GROUP_PREFIX):
        return _check_alias(value)
    if not is_entity_name(value.removeprefix(GROUP_PREFIX)):
        raise rule(f"the value must be '{GROUP_PREFIX}' and the name of a model group")
    return value


def is_entity_name(value: str) -> bool:
    """Return whether *value* can be the name of a team, key or project."""
    # What YAML and JSON take for something else than text is no name: somebody would write it without quotes.
    return bool(re.fullmatch(r"(?!(null|true|false)$)(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value))


def _check_entity(value: str) -> str:
    if not is_entity_name(value):
        raise rule("the value must be a name of up to 63 letters (at least one), digits, dots, dashes and underscores")
    return value


def _check_network(value: str) -> str:
    try:
        return str(ip_network(value))
    except ValueError:
        raise rule("the value must be an IP address or a network such as 10.0.0.0/8") from None


StrategyName = Annotated[str, AfterValidator(_check_strategy), WithJsonSchema({"enum": list(NAMES)})]
Url = Annotated[str, AfterValidator(_check_url)]
WorkerUrl = Annotated[Url, AfterValidator(_check_worker_url)]
Token = Annotated[str, AfterValidator(_check_token)]
ModelName = Annotated[str, AfterValidator(_check_model_name)]
Alias = Annotated[str, AfterValidator(_check_alias)]
AllowedModel = Annotated[str, AfterValidator(_check_allowed_model)]
EntityName = Annotated[str, AfterValidator(_check_entity)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_check_network)], ...], Field(strict=False)]
PriorityName = Literal["high", "normal", "low"]
