"""Guardrails, built from settings. On a reload, an unchanged guardrail keeps the state of its circuit breaker."""

import importlib
import re
import time
from collections.abc import Callable, Mapping

import httpx

from gateway.app.fallbacks import Signers, bedrock_fallbacks
from gateway.backends.bedrock.endpoint import BedrockEndpoint, BedrockTimeouts
from gateway.proxy.guardrails import credentials, national_ids, personal
from gateway.proxy.guardrails.bedrock_filter import BedrockFilter
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.detector import Detector, PatternDetector, pattern_detector
from gateway.proxy.guardrails.filter import GuardrailFilter
from gateway.proxy.guardrails.guard import GuardrailRule
from gateway.proxy.guardrails.guards import GuardedModels, ModelGuards
from gateway.proxy.guardrails.http_filter import HttpFilter
from gateway.proxy.guardrails.redactor import Scan
from gateway.proxy.guardrails.scanning import ScanFilter, ScanThread
from gateway.proxy.guardrails.service_caller import ServiceCaller, ServiceLimits
from gateway.proxy.guardrails.words import Allowed, Patterns, Words, compiled
from gateway.settings import ModelSettings, Settings, SettingsError
from gateway.settings.fallbacks import BedrockSettings
from gateway.settings.guardrails import (
    PERSONAL,
    SECRETS,
    BedrockGuardrail,
    GuardrailSettings,
    HttpGuardrail,
    PiiGuardrail,
    ScanningGuardrail,
    SecretsGuardrail,
    WordsGuardrail,
)

_MadeFrom = tuple[GuardrailSettings, BedrockSettings]


class PhonenumbersMissingError(ImportError):
    """The phonenumbers package is not installed, but the settings name phone number regions."""


class Guardrails:
    """Guardrails of all models."""

    def __init__(self, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty set of guardrails. The caller closes the shared HTTP client *client*."""
        self.counters = GuardrailCounters()
        self.in_force = GuardedModels(self.counters)
        self._client = client
        self._clock = clock
        self._signers = Signers()
        self._made: dict[_MadeFrom, GuardrailRule] = {}
        self._thread = ScanThread()

    def build(self, settings: Settings) -> dict[str, ModelGuards] | None:
        """Build and return the guardrails of each model by model name. Return None if *settings* contain no guardrails.

        Nothing is applied yet.

        Raises:
            SettingsError: if a pattern is invalid or unbounded, or a package extra is missing.
        """
        if not settings.guardrails:
            return None
        rules: dict[str, GuardrailRule] = {}
        for i, each in enumerate(settings.guardrails):
            try:
                rules[each.name] = self._rule(each, settings.bedrock)
            except (ValueError, ImportError) as error:
                raise SettingsError([f"guardrails[{i}]: {str(error).rstrip('.')}."]) from error
        return {model.name: self._guards(model, rules) for model in settings.models}

    def use(self, guards: Mapping[str, ModelGuards] | None) -> None:
        """Apply the guardrails that `build` returned to all new requests."""
        self.in_force.use(guards)

    def _guards(self, model: ModelSettings, rules: Mapping[str, GuardrailRule]) -> ModelGuards:
        is_native = all(each.wire == "converse" for each in bedrock_fallbacks(model))
        return ModelGuards(rules, model.guardrails, model=model.name, counters=self.counters, applies_native=is_native)

    def _rule(self, settings: GuardrailSettings, bedrock: BedrockSettings) -> GuardrailRule:
        made_from = (settings, bedrock)
        rule = self._made.get(made_from)
        if rule is None:
            is_native = settings.kind == "bedrock" and settings.action != "log" and "response" in settings.directions
            rule = self._made[made_from] = GuardrailRule(
                self._filter(settings, bedrock),
                settings.action,
                frozenset(settings.directions),
                fails_open=settings.on_unavailable == "fail_open",
                is_native=is_native,
            )
        return rule

    def _filter(self, settings: GuardrailSettings, bedrock: BedrockSettings) -> GuardrailFilter:
        match settings:
            case HttpGuardrail():
                return self._http(settings)
            case BedrockGuardrail():
                return self._bedrock(settings, bedrock)
            case scanning:
                thread = self._thread
                scan = scan_of(scanning)
                return ScanFilter(scanning.name, scan, scanning.action, timeout_s=scanning.timeout_s, thread=thread)

    def _http(self, settings: HttpGuardrail) -> GuardrailFilter:
        key = settings.api_key
        return HttpFilter(
            settings.name,
            settings.url,
            api_key=None if key is None else key.get_secret_value(),
            action=settings.action,
            client=self._client,
            service=self._service(settings),
        )

    def _bedrock(self, settings: BedrockGuardrail, bedrock: BedrockSettings) -> GuardrailFilter:
        region = settings.region or bedrock.region
        assert region is not None, "the settings are validated"
        endpoint = BedrockEndpoint(
            region=region,
            client=self._client,
            signer=self._signers.signer(bedrock, region),
            endpoint_url=settings.endpoint_url or bedrock.endpoint_url,
            timeouts=BedrockTimeouts(connect_s=settings.timeout_s, first_event_s=settings.timeout_s),
        )
        return BedrockFilter(
            settings.name,
            settings.guardrail_id,
            settings.version,
            endpoint=endpoint,
            action=settings.action,
            service=self._service(settings),
        )

    def _service(self, settings: HttpGuardrail | BedrockGuardrail) -> ServiceCaller:
        return ServiceCaller(settings.name, ServiceLimits(settings.timeout_s, settings.max_at_once), clock=self._clock)


def check_guardrail(settings: GuardrailSettings) -> None:
    """Check the detectors of a guardrail. Raises the same errors as `Guardrails.build`."""
    match settings:
        case HttpGuardrail() | BedrockGuardrail():
            return
        case scanning:
            scan_of(scanning)


def scan_of(settings: ScanningGuardrail) -> Scan:
    """Return the text scan of a guardrail. Raises the same errors as `Guardrails.build`."""
    texts = frozenset(text.lower() for text in settings.allow)
    patterns = tuple(compiled(pattern) for pattern in settings.allow_patterns)
    allows = Allowed(texts, patterns) if texts or patterns else None
    return Scan(_detectors(settings), replacement=settings.replacement, allows=allows)


def _detectors(settings: ScanningGuardrail) -> list[Detector]:
    match settings:
        case WordsGuardrail(words=words, patterns=patterns):
            lists: list[Detector] = [Words(words)] if words else []
            return [*lists, Patterns(patterns)] if patterns else lists
        case SecretsGuardrail():
            return [detector for name in settings.detect or SECRETS for detector in credentials.DETECTORS[name]]
        case PiiGuardrail():
            return _personal(settings)


def _personal(settings: PiiGuardrail) -> list[Detector]:
    names, known = settings.detect or PERSONAL, personal.DETECTORS
    if not known.keys() >= set(names):
        known = known | national_ids.detectors()
    found: list[Detector] = [detector for name in names for detector in known[name]]
    return [*found, national_phones(settings.phone_regions)] if settings.phone_regions else found


_GAP = "[ \u00a0().\\-/]"


def national_phones(regions: tuple[str, ...]) -> PatternDetector:
    """Return a detector for phone numbers without country code that are valid in one of the countries *regions*.

    Raises:
        PhonenumbersMissingError: if the phonenumbers package is not installed.
    """
    try:
        phonenumbers = importlib.import_module("phonenumbers")
    except ModuleNotFoundError as error:
        raise PhonenumbersMissingError("phone_regions requires phonenumbers. Install warmgate[guardrails].") from error

    def is_valid(text: str, region: str) -> bool:
        try:
            return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, region)))
        except phonenumbers.NumberParseException:
            return False

    def check(found: "re.Match[str]") -> int:
        text = found[0]
        return len(text) if any(is_valid(text, region) for region in regions) else 0

    return pattern_detector(
        "phone",
        rf"[(0-9](?:{_GAP}{{0,2}}[0-9]){{5,13}}(?![\w-])",
        rf"[(0-9](?:{_GAP}{{0,2}}[0-9]){{0,13}}{_GAP}{{0,2}}",
        before=r"(?<![\w.,+/-])",
        longest=45,
        check=check,
    )
