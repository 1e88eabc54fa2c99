"""The group of settings for guardrails: what looks at requests and answers, and what it does with what it finds."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Protocol, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gateway.settings.group import Group
from gateway.settings.rules import (
    Contradiction,
    Count,
    EntityName,
    Positive,
    Secret,
    Token,
    Url,
    repeated,
    unless_contradictory,
)

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

_OF_KIND = {
    "detect": ("pii", "secrets"),
    "phone_regions": ("pii",),
    "words": ("words",),
    "patterns": ("words",),
    "allow": ("pii", "secrets", "words"),
    "allow_patterns": ("pii", "secrets", "words"),
    "replacement": ("pii", "secrets", "words"),
    "guardrail_id": ("bedrock",),
    "version": ("bedrock",),
    "region": ("bedrock",),
    "endpoint_url": ("bedrock",),
    "url": ("http",),
    "api_key": ("http",),
    "most_at_once": ("bedrock", "http"),
}
"""Which fields belong to which kinds."""


def _rule(allowed: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{allowed}", {"allowed": allowed})


def _check_replacement(value: str) -> str:
    if not value.isprintable() or any(character in value for character in '"\\'):
        raise _rule("it must be printable, without quotes and backslashes")
    return value


def _check_term(value: str) -> str:
    if not re.match(r"\w", value.strip()) or len(value) > 200:
        raise _rule("it must begin with a letter or a digit, and have at most 200 characters")
    return value.strip()


def _check_region(value: str) -> str:
    if not re.fullmatch("[A-Z]{2}", value):
        raise _rule("it must be a country's two letters, e.g. DE")
    return value


Texts = Annotated[tuple[str, ...], Field(strict=False)]
Terms = Annotated[tuple[Annotated[str, AfterValidator(_check_term)], ...], Field(strict=False)]
Regions = Annotated[tuple[Annotated[str, AfterValidator(_check_region)], ...], Field(strict=False)]
GuardrailNames = Annotated[tuple[EntityName, ...], Field(strict=False)]
Directions = Annotated[tuple[Literal["request", "response"], ...], Field(strict=False)]


class GuardrailSettings(Group):
    name: EntityName = Field(description="its name, by which models and teams have it; it stands in errors and metrics")
    kind: Literal["pii", "secrets", "words", "bedrock", "http"] = Field(
        description="what looks: detectors of pii or secrets, lists of words, a guardrail of bedrock, an http service"
    )
    action: Literal["redact", "block", "log"] = Field(
        default="redact", description="with what it finds: redact it, block the request or answer, or only log that"
    )
    directions: Directions = Field(default=("request", "response"), description="where it looks")
    detect: Texts = Field(
        default=(),
        description=f"pii: {', '.join((*PERSONAL, *NATIONAL_IDS))}; secrets: {', '.join(SECRETS)}; "
        f"none: {', '.join(PERSONAL)}, or all secrets",
    )
    phone_regions: Regions = Field(
        default=(), description="countries whose phone numbers are known without their code, e.g. DE (extra guardrails)"
    )
    words: Terms = Field(default=(), description="words and phrases that are looked for, in upper or lower case")
    patterns: Texts = Field(
        default=(), description="regular expressions of RE2 that are looked for, each with a bound (extra guardrails)"
    )
    allow: Texts = Field(default=(), description="texts that are not meant, though they are found")
    allow_patterns: Texts = Field(default=(), description="the same by regular expressions of RE2 (extra guardrails)")
    replacement: Annotated[str, AfterValidator(_check_replacement)] | None = Field(
        default=None, description="what stands in place of what is redacted; null: what it was, e.g. [EMAIL]"
    )
    guardrail_id: Token | None = Field(default=None, description="id or ARN of a guardrail of Amazon Bedrock")
    version: Token = Field(default="DRAFT", description="its version: a number, or DRAFT")
    region: Token | None = Field(default=None, description="its AWS region; null: bedrock.region")
    endpoint_url: Url | None = Field(default=None, description="endpoint of the runtime; null: bedrock.endpoint_url")
    url: Url | None = Field(default=None, description="address of a service that is asked for each request or answer")
    api_key: Secret | None = Field(default=None, description="key sent to it as a bearer token")
    timeout_s: Positive = Field(
        default=2,
        description="how long another service may take, or the detectors here for one request, in processor time",
    )
    most_at_once: Count = Field(default=64, description="questions to it at once; more wait, within timeout_s")
    when_away: Literal["closed", "open"] = Field(
        default="closed", description="where it cannot say, or not in time: closed: refused; open: the text passes"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        return unless_contradictory(self, [*self._foreign(), *self._missing(), *self._unknown()])

    def _foreign(self) -> Iterator[Contradiction]:
        for name, kinds in _OF_KIND.items():
            if name in self.model_fields_set and self.kind not in kinds:
                yield Contradiction((name,), f"is for kind: {' or '.join(kinds)}, and this one is {self.kind}")

    def _missing(self) -> Iterator[Contradiction]:
        if not self.directions:
            yield Contradiction(("directions",), "is empty; it would look at nothing")
        if self.kind == "words" and not self.words and not self.patterns:
            yield Contradiction(("words",), "is needed, or patterns")
        if self.kind == "bedrock" and self.guardrail_id is None:
            yield Contradiction(("guardrail_id",), "is needed for kind: bedrock")
        if self.kind == "http" and self.url is None:
            yield Contradiction(("url",), "is needed for kind: http")

    def _unknown(self) -> Iterator[Contradiction]:
        known = {"pii": (*PERSONAL, *NATIONAL_IDS), "secrets": SECRETS}.get(self.kind, ())
        for i, name in enumerate(self.detect):
            if known and name not in known:
                yield Contradiction(("detect", i), f"is not one of {', '.join(known)}")


class Guarded(Protocol):
    """A model or a team."""

    @property
    def guardrails(self) -> tuple[str, ...]: ...


def unknown_guardrails(
    guardrails: Sequence[GuardrailSettings],
    models: Sequence[Guarded],
    teams: Sequence[Guarded],
    *,
    region: str | None,
) -> list[Contradiction]:
    """One contradiction for each name of a guardrail that there is not, or twice, or that has no AWS region."""
    found = repeated([(("guardrails", i, "name"), each.name) for i, each in enumerate(guardrails)])
    known = [each.name for each in guardrails]
    for group, guarded in (("models", models), ("teams", teams)):
        found += [
            Contradiction((group, i, "guardrails", j), f"is {name!r}, and guardrails has none of that name")
            for i, each in enumerate(guarded)
            for j, name in enumerate(each.guardrails)
            if name not in known
        ]
    if region is None:
        text = "is needed: set it, or bedrock.region, or AWS_REGION"
        found += [
            Contradiction(("guardrails", i, "region"), text)
            for i, each in enumerate(guardrails)
            if each.kind == "bedrock" and each.region is None
        ]
    return found
