"""Settings for guardrails: which parts of requests and answers they check, and what they do with matches."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Protocol, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_types import EntityName, Group, Token, Url
from gateway.settings.rules import Count, Positive, Secret, unless_contradictory

PERSONAL = ("email", "phone", "card", "iban")
NATIONAL_IDS = (
    "us_ssn",
    "uk_nino",
    "de_steuer_id",
    "fr_nir",
    "es_dni",
    "it_codice_fiscale",
    "nl_bsn",
    "pl_pesel",
    "ch_ahv",
    "br_cpf",
)
SECRETS = ("private_key", "marked", "jwt", "named", "random")


def _rule(allowed: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{allowed}", {"allowed": allowed})


def _check_replacement(value: str) -> str:
    if not value.isprintable() or any(character in value for character in '"\\'):
        raise _rule("the value must be printable, without quotes or backslashes")
    return value


def _check_term(value: str) -> str:
    if not re.match(r"\w", value.strip()) or len(value) > 200:
        raise _rule("the value must begin with a letter or a digit, and have at most 200 characters")
    return value.strip()


def _check_region(value: str) -> str:
    if not re.fullmatch("[A-Z]{2}", value):
        raise _rule("the value must be a two-letter country code, e.g. DE")
    return value


Texts = Annotated[tuple[str, ...], Field(strict=False)]
Terms = Annotated[tuple[Annotated[str, AfterValidator(_check_term)], ...], Field(strict=False)]
Regions = Annotated[tuple[Annotated[str, AfterValidator(_check_region)], ...], Field(strict=False)]
GuardrailNames = Annotated[tuple[EntityName, ...], Field(strict=False)]
Directions = Annotated[tuple[Literal["request", "response"], ...], Field(strict=False)]


_DETECT = Field(
    default=(),
    description=f"detectors that the guardrail runs. For kind: pii, {', '.join(PERSONAL)}, and with the extra "
    f"warmgate[guardrails] the national ids {', '.join(NATIONAL_IDS)}. For kind: secrets, {', '.join(SECRETS)}. An "
    f"empty list means {', '.join(PERSONAL)} for pii, and all detectors for secrets.",
)
_MOST_AT_ONCE = Field(
    default=64,
    description="maximum number of concurrent calls to the service. Further calls wait, for at most timeout_s.",
)
_KIND = Field(
    description="kind of check: pii or secrets (built-in detectors), words (word lists), bedrock (a Bedrock guardrail) "
    "or http (an HTTP service)"
)


class _Guardrail(Group):
    """Settings that all kinds of guardrails have."""

    name: EntityName = Field(description="name of the guardrail in models, teams, errors and metrics")
    kind: str
    action: Literal["redact", "block", "log"] = Field(
        default="redact",
        description="action on a match: redact (replace the match), block (refuse the request or answer) or log "
        "(only log the match)",
    )
    directions: Directions = Field(
        default=("request", "response"), description="texts that the guardrail checks: request, response or both"
    )
    timeout_s: Positive = Field(
        default=2,
        description="time limit in seconds: for calls to a service, or for the processor time of local detectors "
        "per request",
    )
    on_unavailable: Literal["fail_closed", "fail_open"] = Field(
        default="fail_closed",
        description="action if a check fails or times out: fail_closed (refuse the request) or fail_open (let "
        "the text pass)",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        empty = (
            []
            if self.directions
            else [
                Contradiction(
                    ("directions",), "is empty, so the guardrail would check nothing. List request, response or both"
                )
            ]
        )
        return unless_contradictory(self, [*empty, *self._contradictions()])

    def _contradictions(self) -> Iterator[Contradiction]:
        """Yield the contradictions between settings that only one kind of guardrail has."""
        yield from ()


class _Scanning(_Guardrail):
    """Settings for guardrails that search texts in the gateway itself, without a service."""

    allow: Texts = Field(default=(), description="texts that the guardrail ignores even if they match")
    allow_patterns: Texts = Field(
        default=(),
        description="RE2 patterns of texts that the guardrail ignores. Patterns need the extra warmgate[guardrails].",
    )
    replacement: Annotated[str, AfterValidator(_check_replacement)] | None = Field(
        default=None, description="text that replaces a redacted match. Null means the kind of the match, e.g. [EMAIL]."
    )


class PiiGuardrail(_Scanning):
    kind: Annotated[Literal["pii"], _KIND]
    detect: Texts = _DETECT
    phone_regions: Regions = Field(
        default=(),
        description="countries whose phone numbers are recognized without a country code, e.g. DE. Phone regions "
        "need the extra warmgate[guardrails].",
    )

    def _contradictions(self) -> Iterator[Contradiction]:
        yield from _unknown_detectors(self.detect, (*PERSONAL, *NATIONAL_IDS))


class SecretsGuardrail(_Scanning):
    kind: Annotated[Literal["secrets"], _KIND]
    detect: Texts = _DETECT

    def _contradictions(self) -> Iterator[Contradiction]:
        yield from _unknown_detectors(self.detect, SECRETS)


class WordsGuardrail(_Scanning):
    kind: Annotated[Literal["words"], _KIND]
    words: Terms = Field(default=(), description="words and phrases that the guardrail matches, ignoring case")
    patterns: Texts = Field(
        default=(),
        description="RE2 patterns that the guardrail matches, each of bounded length. Patterns need the extra "
        "warmgate[guardrails].",
    )

    def _contradictions(self) -> Iterator[Contradiction]:
        if not self.words and not self.patterns:
            yield Contradiction(("words",), "or patterns is required")


class BedrockGuardrail(_Guardrail):
    kind: Annotated[Literal["bedrock"], _KIND]
    guardrail_id: Token = Field(description="id or ARN of the Amazon Bedrock guardrail (kind: bedrock)")
    version: Token = Field(
        default="DRAFT", description="version of the Amazon Bedrock guardrail, a number or DRAFT (kind: bedrock)"
    )
    region: Token | None = Field(
        default=None, description="AWS region of the Amazon Bedrock guardrail. Null means bedrock.region."
    )
    endpoint_url: Url | None = Field(
        default=None,
        description="URL of the Bedrock runtime endpoint for the guardrail. Null means bedrock.endpoint_url.",
    )
    max_at_once: Count = _MOST_AT_ONCE


class HttpGuardrail(_Guardrail):
    kind: Annotated[Literal["http"], _KIND]
    url: Url = Field(description="URL of the service that checks each request or answer (kind: http)")
    api_key: Secret | None = Field(
        default=None, description="API key that the gateway sends to the service as a bearer token"
    )
    max_at_once: Count = _MOST_AT_ONCE


ScanningGuardrail = PiiGuardrail | SecretsGuardrail | WordsGuardrail
GuardrailSettings = Annotated[ScanningGuardrail | BedrockGuardrail | HttpGuardrail, Field(discriminator="kind")]


def _unknown_detectors(names: Sequence[str], known: Sequence[str]) -> Iterator[Contradiction]:
    for i, name in enumerate(names):
        if name not in known:
            yield Contradiction(("detect", i), f"is not one of {', '.join(known)}")


class Guarded(Protocol):
    """Settings of a model or team that uses guardrails by name."""

    @property
    def guardrails(self) -> tuple[str, ...]: ...


def unknown_guardrails(
    guardrails: Sequence[GuardrailSettings],
    models: Sequence[Guarded],
    teams: Sequence[Guarded],
    *,
    region: str | None,
) -> list[Contradiction]:
    """Return the contradictions between *guardrails* and the guardrail names that models and teams use."""
    found = repeated([(("guardrails", i, "name"), each.name) for i, each in enumerate(guardrails)])
    known = [each.name for each in guardrails]
    for group, guarded in (("models", models), ("teams", teams)):
        found += [
            Contradiction((group, i, "guardrails", j), f"is {name!r}, but guardrails has no entry with that name")
            for i, each in enumerate(guarded)
            for j, name in enumerate(each.guardrails)
            if name not in known
        ]
    if region is None:
        text = "is required. Set it, or bedrock.region, or AWS_REGION"
        found += [
            Contradiction(("guardrails", i, "region"), text)
            for i, each in enumerate(guardrails)
            if each.kind == "bedrock" and each.region is None
        ]
    return found
