"""Guardrails made from settings. What is as it was before is kept, with what it knows of the service behind it."""

import importlib
import re
import time
from collections.abc import Callable, Mapping

import httpx

from gateway.backends.bedrock.endpoint import Endpoint, Timeouts
from gateway.cascade.assembly import Signers, fallbacks_of
from gateway.guardrails import credentials, national_ids, personal
from gateway.guardrails.bedrock_filter import BedrockFilter
from gateway.guardrails.detector import Detector, Shape, shape
from gateway.guardrails.filter import Filter
from gateway.guardrails.guard import Rule
from gateway.guardrails.guards import GuardedModels, ModelGuards
from gateway.guardrails.http_filter import HttpFilter
from gateway.guardrails.patience import Patience, Patient
from gateway.guardrails.redactor import Scan
from gateway.guardrails.scanning import ScanFilter, ScanThread
from gateway.guardrails.tally import GuardrailTally
from gateway.guardrails.words import Allowed, Patterns, Words, compiled
from gateway.settings import ModelSettings, Settings, SettingsError
from gateway.settings.fallbacks import BedrockSettings, ModelBedrockSettings
from gateway.settings.guardrails import PERSONAL, SECRETS, GuardrailSettings

_MadeFrom = tuple[GuardrailSettings, BedrockSettings]


class PhonenumbersMissingError(ImportError):
    """Regions of phone numbers are set, and phonenumbers is not installed."""


class Guardrails:
    """Makes the guardrails of all models."""

    def __init__(self, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        """*client* is shared, and closed by its owner."""
        self.tally = GuardrailTally()
        self.in_force = GuardedModels(self.tally)
        self._client = client
        self._clock = clock
        self._signers = Signers()
        self._made: dict[_MadeFrom, Rule] = {}
        self._thread = ScanThread()

    def of(self, settings: Settings) -> dict[str, ModelGuards] | None:
        """What guards each model, by its name; None where *settings* have no guardrail at all. Changes nothing.

        Raises:
            SettingsError: one cannot be made: a pattern is none, or has no bound, or it needs an extra that is missing.
        """
        if not settings.guardrails:
            return None
        rules: dict[str, Rule] = {}
        for i, each in enumerate(settings.guardrails):
            try:
                rules[each.name] = self._rule(each, settings.bedrock)
            except (ValueError, ImportError) as error:
                raise SettingsError([f"guardrails[{i}]: {str(error).rstrip('.')}."]) from error
        return {model.name: self._of(model, rules) for model in settings.models}

    def use(self, guards: Mapping[str, ModelGuards] | None) -> None:
        """Have those that `of` gave in force from this moment on."""
        self.in_force.use(guards)

    def _of(self, model: ModelSettings, rules: Mapping[str, Rule]) -> ModelGuards:
        natives = [each for each in fallbacks_of(model) if isinstance(each, ModelBedrockSettings)]
        is_native = all(each.wire == "converse" for each in natives)
        return ModelGuards(rules, model.guardrails, model=model.name, tally=self.tally, applies_native=is_native)

    def _rule(self, settings: GuardrailSettings, bedrock: BedrockSettings) -> Rule:
        made_from = (settings, bedrock)
        rule = self._made.get(made_from)
        if rule is None:
            is_native = settings.kind == "bedrock" and settings.action != "log" and "response" in settings.directions
            rule = self._made[made_from] = Rule(
                self._filter(settings, bedrock),
                settings.action,
                frozenset(settings.directions),
                fails_open=settings.when_away == "open",
                is_native=is_native,
            )
        return rule

    def _filter(self, settings: GuardrailSettings, bedrock: BedrockSettings) -> Filter:
        if settings.kind not in ("bedrock", "http"):
            return ScanFilter(
                settings.name, scan_of(settings), settings.action, timeout_s=settings.timeout_s, thread=self._thread
            )
        patience = Patience(settings.timeout_s, settings.most_at_once)
        patient = Patient(settings.name, patience, clock=self._clock)
        if settings.kind == "http":
            assert settings.url is not None, "the settings see to it"
            key = settings.api_key
            return HttpFilter(
                settings.name,
                settings.url,
                api_key=None if key is None else key.get_secret_value(),
                action=settings.action,
                client=self._client,
                patient=patient,
            )
        region = settings.region or bedrock.region
        assert region is not None, "the settings see to it"
        assert settings.guardrail_id is not None, "the settings see to it"
        endpoint = Endpoint(
            region=region,
            client=self._client,
            signer=self._signers.of(bedrock, region),
            endpoint_url=settings.endpoint_url or bedrock.endpoint_url,
            timeouts=Timeouts(connect_s=settings.timeout_s, first_event_s=settings.timeout_s),
        )
        return BedrockFilter(
            settings.name,
            settings.guardrail_id,
            settings.version,
            endpoint=endpoint,
            action=settings.action,
            patient=patient,
        )


def scan_of(settings: GuardrailSettings) -> Scan:
    """What a guardrail finds by itself. Raises as `Guardrails.of`."""
    texts = frozenset(text.lower() for text in settings.allow)
    patterns = tuple(compiled(pattern) for pattern in settings.allow_patterns)
    allows = Allowed(texts, patterns) if texts or patterns else None
    return Scan(_detectors(settings), replacement=settings.replacement, allows=allows)


def _detectors(settings: GuardrailSettings) -> list[Detector]:
    if settings.kind == "words":
        lists: list[Detector] = [Words(settings.words)] if settings.words else []
        return [*lists, Patterns(settings.patterns)] if settings.patterns else lists
    if settings.kind == "secrets":
        names, known = settings.detect or SECRETS, credentials.DETECTORS
    else:
        names, known = settings.detect or PERSONAL, personal.DETECTORS | national_ids.DETECTORS
    found: list[Detector] = [detector for name in names for detector in known[name]]
    if settings.kind == "pii" and settings.phone_regions:
        found.append(national_phones(settings.phone_regions))
    return found


_GAP = "[ \u00a0().\\-/]"


def national_phones(regions: tuple[str, ...]) -> Shape:
    """Phone numbers without the country's code, that phonenumbers takes for valid ones of one of *regions*.

    Raises:
        PhonenumbersMissingError: it is not installed.
    """
    try:
        phonenumbers = importlib.import_module("phonenumbers")
    except ModuleNotFoundError as error:
        raise PhonenumbersMissingError("phone_regions needs phonenumbers: install warmgate[guardrails].") from error

    def is_valid(text: str, region: str) -> bool:
        try:
            return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, region)))
        except phonenumbers.NumberParseException:
            return False

    def check(found: "re.Match[str]") -> int:
        text = found[0]
        return len(text) if any(is_valid(text, region) for region in regions) else 0

    return shape(
        "phone",
        rf"[(0-9](?:{_GAP}{{0,2}}[0-9]){{5,13}}(?![\w-])",
        rf"[(0-9](?:{_GAP}{{0,2}}[0-9]){{0,13}}{_GAP}{{0,2}}",
        before=r"(?<![\w.,+/-])",
        longest=45,
        check=check,
    )
