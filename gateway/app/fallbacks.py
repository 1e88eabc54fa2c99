"""Fallback backends of models, built from settings. The state of a fallback target survives changes of the settings.

1. Building fallbacks may fail and has no effect on those in use. `FallbackFactory.attend` applies new limits.
2. A fallback keeps its backend if the settings of the backend are unchanged.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx

from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.backend import BedrockBackend
from gateway.backends.bedrock.bearer import BearerSigner
from gateway.backends.bedrock.endpoint import BedrockTimeouts
from gateway.backends.bedrock.output_caps import output_cap
from gateway.backends.fallbacks.allowance import RateLimits
from gateway.backends.fallbacks.canary import CanaryRules
from gateway.backends.fallbacks.catalog import Catalog, catalog_url
from gateway.backends.fallbacks.fallback import Fallback
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.fallbacks.spill_budget import SpillLimits
from gateway.backends.fallbacks.target import Target, TargetKey, Targets, TargetSettings
from gateway.backends.openai_endpoint import PATHS, OpenAIEndpoint
from gateway.backends.upstream.timeouts import Timeouts
from gateway.settings import ModelSettings, Settings
from gateway.settings.fallbacks import (
    AllowanceSettings,
    BedrockSettings,
    ModelBedrockSettings,
    OpenAIEndpointSettings,
    PriceSettings,
    TokenPriceSettings,
)
from gateway.tenancy.ledger.price import Price

TokenTimes = Callable[[], tuple[float, float]]
"""Function that returns the seconds that a worker takes per prompt token and per generated token.

`Price.per_gpu_hour` uses it.
"""

GroupT = TypeVar("GroupT", bound=AllowanceSettings)

BEDROCK_PATHS = frozenset({"/v1/chat/completions"})

CLAUDE_OUTPUT_WEIGHT = 5.0
"""Quota weight of an output token in Claude 3.7 or later (AWS user guide, quotas-token-burndown)."""
_weighs_more = re.compile(r"anthropic\.claude-(?!v\d|instant|3-(?!7))").search

_NOT_OF_THE_BACKEND = {"price": None, "requests_per_minute": None, "tokens_per_minute": None, "ramp_s": None}


class Signers:
    """Request signers for Bedrock. All models and regions share one chain of credentials per AWS profile."""

    def __init__(self) -> None:
        self._chains: dict[str | None, CredentialChain] = {}
        self._of_regions: dict[tuple[str | None, str], SigV4Signer] = {}

    def signer(self, shared: BedrockSettings, region: str) -> SigV4Signer | BearerSigner:
        """Return the request signer for the AWS region *region*.

        Raises:
            ValueError: if the API key is malformed.
            BotocoreMissingError: if botocore is required and not installed.
        """
        if shared.auth == "bearer":
            if shared.bearer_token_file is not None:
                return BearerSigner(file=Path(shared.bearer_token_file))
            assert shared.bearer_token is not None, "the settings are validated"
            return BearerSigner(token=shared.bearer_token.get_secret_value())
        place = (shared.profile, region)
        signer = self._of_regions.get(place)
        if signer is None:
            chain = self._chains.get(shared.profile)
            if chain is None:
                chain = self._chains[shared.profile] = CredentialChain(profile=shared.profile)
            signer = self._of_regions[place] = SigV4Signer(region=region, credentials=chain)
        return signer


class Tools:
    """Objects that all fallbacks share."""

    def __init__(self, client: httpx.AsyncClient, clock: Callable[[], float]) -> None:
        self.client = client
        self.clock = clock
        self.signers = Signers()


class FallbackSpec(Generic[GroupT]):
    """Settings and shared objects from which a fallback of a model is built."""

    def __init__(
        self,
        group: GroupT,
        model: ModelSettings,
        settings: Settings,
        *,
        target: Target,
        price: Callable[[], Price],
        tools: Tools,
    ) -> None:
        """Create the specification from the settings *group*. The model's *price* applies if *group* has no price."""
        self.group = group
        self.model = model
        self.settings = settings
        self.target = target
        self.tools = tools
        self.price = price if group.price is None else listed_price(group.price)
        self.backend_settings = group.model_copy(update=_NOT_OF_THE_BACKEND)
        """Settings of the fallback, except the fields whose changes require no new backend."""


class FallbackKind(Protocol[GroupT]):
    """Interface of a fallback type, such as Bedrock.

    A new type needs a class in this module, an entry in `KINDS` and a settings group.
    """

    @property
    def extra(self) -> str | None:
        """Name of the package extra that the fallback type requires, or None."""
        ...

    def key(self, group: GroupT, model: ModelSettings, settings: Settings) -> TargetKey:
        """Return the target of a fallback. Fallbacks with the same target share rate limits and failure counts."""
        ...

    def access(self, group: GroupT, settings: Settings) -> Hashable:
        """Return the credentials of a fallback. When the credentials change, earlier failures are forgotten."""
        ...

    def make(self, spec: FallbackSpec[GroupT], kept: Mapping[Hashable, Fallback]) -> Fallback:
        """Return the fallback that *spec* describes.

        Reuse the backend of a fallback in *kept* that was built from the same settings.

        Raises:
            ValueError: if an address, key or name is invalid.
            ImportError: if the package extra is not installed.
        """
        ...

    def catalog(self, settings: Settings, key: TargetKey, tools: Tools) -> Catalog | None:
        """Return the provider's list of models scheduled for retirement, or None if the provider has no such list."""
        ...


class BedrockKind:
    """Fallbacks to models on Amazon Bedrock."""

    extra = "bedrock"

    def key(self, group: ModelBedrockSettings, model: ModelSettings, settings: Settings) -> TargetKey:  # noqa: ARG002
        endpoint = group.endpoint_url or settings.bedrock.endpoint_url
        return TargetKey("bedrock", _region(group, settings), group.model_id, endpoint)

    def access(self, group: ModelBedrockSettings, settings: Settings) -> Hashable:  # noqa: ARG002
        return settings.bedrock

    def make(self, spec: FallbackSpec[ModelBedrockSettings], kept: Mapping[Hashable, Fallback]) -> Fallback:
        group = spec.group
        first_event_s = first_event_wait_s(group, spec.model, spec.settings)
        made_from = (spec.backend_settings, spec.settings.bedrock, first_event_s)
        former = kept.get(made_from)
        return Fallback(
            backend=self._backend(spec, first_event_s) if former is None else former.backend,
            kind="bedrock",
            target=spec.target,
            price=spec.price,
            paths=BEDROCK_PATHS,
            has_canary=True,
            context_tokens=group.context_tokens,
            max_output_tokens=group.max_output_tokens or output_cap(group.model_id),
            default_max_tokens=group.default_max_tokens,
            output_weight=CLAUDE_OUTPUT_WEIGHT if _weighs_more(group.model_id) else 1.0,
            made_from=made_from,
        )

    def catalog(self, settings: Settings, key: TargetKey, tools: Tools) -> Catalog | None:
        if key.endpoint is not None:
            return None  # not AWS itself
        return Catalog(tools.client, tools.signers.signer(settings.bedrock, key.place), catalog_url(key.place))

    def _backend(self, spec: FallbackSpec[ModelBedrockSettings], first_event_s: float) -> BedrockBackend:
        group, shared = spec.group, spec.settings.bedrock
        region = _region(group, spec.settings)
        return BedrockBackend(
            model_id=group.model_id,
            region=region,
            client=spec.tools.client,
            signer=spec.tools.signers.signer(shared, region),
            endpoint_url=group.endpoint_url or shared.endpoint_url,
            wire=group.wire,
            family=group.family,
            context_tokens=group.context_tokens,
            default_max_tokens=group.default_max_tokens,
            max_output_tokens=group.max_output_tokens,
            reasoning_field=group.reasoning_field,
            timeouts=BedrockTimeouts(first_event_s=first_event_s),
            refusals=spec.target.refusals,
        )


class OpenAIKind:
    """Fallbacks to endpoints that have an OpenAI-compatible API."""

    extra = None

    def key(self, group: OpenAIEndpointSettings, model: ModelSettings, settings: Settings) -> TargetKey:  # noqa: ARG002
        return TargetKey("openai", group.url, group.model or model.name)

    def access(self, group: OpenAIEndpointSettings, settings: Settings) -> Hashable:  # noqa: ARG002
        return group.api_key

    def make(self, spec: FallbackSpec[OpenAIEndpointSettings], kept: Mapping[Hashable, Fallback]) -> Fallback:
        group = spec.group
        made_from = (spec.backend_settings, spec.model.name, spec.settings.timeouts)
        former = kept.get(made_from)
        if former is not None:
            backend, connections = former.backend, former.connections
        else:
            backend = connections = self._endpoint(spec)
        return Fallback(
            backend=backend,
            kind="openai",
            target=spec.target,
            price=spec.price,
            paths=PATHS,
            context_tokens=group.context_tokens,
            max_output_tokens=group.max_output_tokens,
            connections=connections,
            made_from=made_from,
        )

    def catalog(self, settings: Settings, key: TargetKey, tools: Tools) -> Catalog | None:  # noqa: ARG002
        return None

    def _endpoint(self, spec: FallbackSpec[OpenAIEndpointSettings]) -> OpenAIEndpoint:
        group = spec.group
        return OpenAIEndpoint(
            group.id or f"openai:{urlsplit(group.url).netloc}",
            group.url,
            model=group.model or spec.model.name,
            api_key=group.api_key.get_secret_value() if group.api_key else None,
            max_output_tokens=group.max_output_tokens,
            timeouts=timeouts_of(spec.settings),
            clock=spec.tools.clock,
        )


KINDS: Final[Mapping[str, FallbackKind[Any]]] = {"bedrock": BedrockKind(), "openai": OpenAIKind()}
"""Fallback types by the name of their settings group in `FallbackSettings`."""


class FallbackFactory:
    """Factory for the fallbacks of all models."""

    def __init__(self, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Create the factory. The caller closes the shared HTTP client *client*."""
        self._tools = Tools(client, clock)
        self.targets = Targets()

    def make(
        self,
        model: ModelSettings,
        settings: Settings,
        *,
        former: Fallbacks | None = None,
        token_times: TokenTimes | None = None,
    ) -> Fallbacks:
        """Build the fallbacks of *model*, which continue the counters of the fallbacks *former*.

        GPU hours are free without *token_times*.

        Raises:
            ValueError: if the address, key or name of a fallback is invalid.
            ImportError: if a fallback requires a package extra that is not installed.
        """
        price = price_of(model.price, token_times)
        kept = {fallback.made_from: fallback for fallback in (() if former is None else former.in_order)}
        made = []
        for name, group in fallbacks_of(model):
            kind = KINDS[name]
            target = self.targets.find(kind.key(group, model, settings))
            made.append(
                kind.make(FallbackSpec(group, model, settings, target=target, price=price, tools=self._tools), kept)
            )
        limits = SpillLimits(model.spill.usd_per_hour, model.spill.share)
        return Fallbacks(model.name, made, limits=limits, former=former)

    def attend(self, settings: Settings) -> None:
        """Apply the rate limits in *settings*. If several models use the same target, the lowest rate limit applies."""
        named: defaultdict[TargetKey, list[TargetSettings]] = defaultdict(list)
        for model in settings.models:
            for name, group in fallbacks_of(model):
                kind = KINDS[name]
                rates = RateLimits(group.requests_per_minute, group.tokens_per_minute, group.ramp_s)
                named[kind.key(group, model, settings)].append(TargetSettings(rates, kind.access(group, settings)))
        self.targets.attend(named)

    def catalog(self, settings: Settings, key: TargetKey) -> Catalog | None:
        """Return the provider's list of models scheduled for retirement, or None if the provider has no such list."""
        return KINDS[key.kind].catalog(settings, key, self._tools)


def timeouts_of(settings: Settings) -> Timeouts:
    """Return the timeouts for requests to workers and to OpenAI-compatible fallbacks."""
    patience = settings.timeouts
    return Timeouts(
        connect_s=patience.connect_s,
        first_byte_s=patience.first_byte_s,
        idle_s=patience.idle_s,
        total_s=patience.total_s,
    )


def fallbacks_of(model: ModelSettings) -> Iterator[tuple[str, AllowanceSettings]]:
    """Yield the type and the settings group of each fallback, in configured order."""
    for fallback in model.fallbacks:
        yield fallback.kind, fallback.group


def extras_of(model: ModelSettings) -> set[str]:
    """Return the package extras that the fallbacks of *model* require."""
    return {extra for name, _ in fallbacks_of(model) if (extra := KINDS[name].extra) is not None}


def bedrock_fallbacks(model: ModelSettings) -> list[ModelBedrockSettings]:
    """Return the settings groups of the model's Bedrock fallbacks."""
    return [fallback.bedrock for fallback in model.fallbacks if fallback.bedrock is not None]


def price_of(price: PriceSettings, token_times: TokenTimes | None) -> Callable[[], Price]:
    """Return a function that returns the current token prices, computed from *price*."""
    if price.gpu_hour_usd is not None and token_times is not None:
        usd, times = price.gpu_hour_usd, token_times

        def at_present() -> Price:
            prefill_s, decode_s = times()
            return Price.per_gpu_hour(usd, prefill_s_per_token=prefill_s, decode_s_per_token=decode_s)

        return at_present
    return listed_price(price)


def listed_price(price: TokenPriceSettings) -> Callable[[], Price]:
    """Return a function that returns the fixed token prices in *price*."""
    listed = Price.per_million(
        input_usd=price.input_usd, cached_input_usd=price.cached_input_usd, output_usd=price.output_usd
    )
    return lambda: listed


def canary_rules(settings: Settings) -> CanaryRules:
    return CanaryRules(at_start=settings.bedrock.canary_at_start, every_s=settings.bedrock.canary_every_s)


def _region(bedrock: ModelBedrockSettings, settings: Settings) -> str:
    region = bedrock.region or settings.bedrock.region
    assert region is not None, "the settings are validated"
    return region


def first_event_wait_s(bedrock: ModelBedrockSettings, model: ModelSettings, settings: Settings) -> float:
    """Return the seconds to wait for the first event from Bedrock.

    If the fallback is the only backend of the model, it gets as much time as the last worker would. An explicit setting
    takes precedence.
    """
    is_last = not model.has_fleet and len(list(fallbacks_of(model))) == 1
    if "first_event_timeout_s" in bedrock.model_fields_set or not is_last:
        return bedrock.first_event_timeout_s
    return max(bedrock.first_event_timeout_s, settings.timeouts.first_byte_s)
