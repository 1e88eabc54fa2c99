"""The cascades of models, made from settings; what they share outlives every change of the settings.

1. What is made changes nothing that is in use, so that making may fail. `Cascades.attend` puts new limits in force.
2. A fallback whose backend would be made from the same settings keeps the backend that it has.
"""

import re
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from gateway.backends.bedrock.aws import CredentialChain, SigV4Signer
from gateway.backends.bedrock.backend import BedrockBackend
from gateway.backends.bedrock.bearer import BearerSigner
from gateway.backends.bedrock.endpoint import Timeouts as BedrockTimeouts
from gateway.backends.bedrock.output_caps import output_cap
from gateway.backends.openai_endpoint import PATHS, OpenAIEndpoint
from gateway.cascade.allowance import Rates
from gateway.cascade.canary import CanaryRules
from gateway.cascade.cascade import Cascade
from gateway.cascade.catalogue import Catalogue, catalogue_url
from gateway.cascade.fallback import Fallback
from gateway.cascade.spill_budget import SpillLimits
from gateway.cascade.target import Naming, TargetKey, Targets
from gateway.ledger.price import Price
from gateway.settings import ModelSettings, Settings
from gateway.settings.fallbacks import (
    BedrockSettings,
    ModelBedrockSettings,
    OpenAIEndpointSettings,
    PriceSettings,
)
from gateway.upstream.timeouts import Timeouts

TokenTimes = Callable[[], tuple[float, float]]
"""Seconds that a worker takes for a prompt token and for a generated one, see `Price.per_gpu_hour`."""

BEDROCK_PATHS = frozenset({"/v1/chat/completions"})

CLAUDE_OUTPUT_WEIGHT = 5.0
"""Of Claude from 3.7 on an output token counts five times in a quota (AWS's user guide, quotas-token-burndown)."""
_weighs_more = re.compile(r"anthropic\.claude-(?!v\d|instant|3-(?!7))").search

_NOT_OF_THE_BACKEND = {"price": None, "requests_per_minute": None, "tokens_per_minute": None, "ramp_s": None}


class Signers:
    """Whoever signs for Bedrock: one credential chain per profile, however many models and regions use it."""

    def __init__(self) -> None:
        self._chains: dict[str | None, CredentialChain] = {}
        self._of_regions: dict[tuple[str | None, str], SigV4Signer] = {}

    def of(self, shared: BedrockSettings, region: str) -> SigV4Signer | BearerSigner:
        """The one for *region*.

        Raises:
            ValueError: the API key cannot be one.
            BotocoreMissingError: it is needed and not installed.
        """
        if shared.auth == "bearer":
            if shared.bearer_token_file is not None:
                return BearerSigner(file=Path(shared.bearer_token_file))
            assert shared.bearer_token is not None, "the settings see to it"
            return BearerSigner(token=shared.bearer_token.get_secret_value())
        place = (shared.profile, region)
        signer = self._of_regions.get(place)
        if signer is None:
            chain = self._chains.get(shared.profile)
            if chain is None:
                chain = self._chains[shared.profile] = CredentialChain(profile=shared.profile)
            signer = self._of_regions[place] = SigV4Signer(region=region, credentials=chain)
        return signer


class Cascades:
    """Makes the cascades of all models."""

    def __init__(self, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        """*client* is shared, and closed by its owner."""
        self._client = client
        self._clock = clock
        self._signers = Signers()
        self.targets = Targets()

    def of(
        self,
        model: ModelSettings,
        settings: Settings,
        *,
        former: Cascade | None = None,
        token_times: TokenTimes | None = None,
    ) -> Cascade:
        """The cascade of *model*, which goes on from *former*. Without *token_times* a GPU hour has no price.

        Raises:
            ValueError: a fallback's address, key or name cannot be used.
            BotocoreMissingError: there is Bedrock among them, and botocore is not installed.
        """
        price = price_of(model.price, token_times)
        kept = {fallback.made_from: fallback for fallback in (() if former is None else former.fallbacks)}
        return Cascade(
            model.name,
            [
                self._bedrock(each, model, settings, price, kept)
                if isinstance(each, ModelBedrockSettings)
                else self._openai(each, model, settings, price, kept)
                for each in fallbacks_of(model)
            ],
            limits=SpillLimits(model.spill.usd_per_hour, model.spill.share),
            former=former,
        )

    def attend(self, settings: Settings) -> None:
        """Have the rates of *settings* from now on: where several models name a target, the lowest that one says."""
        named: defaultdict[TargetKey, list[Naming]] = defaultdict(list)
        for model in settings.models:
            for each in fallbacks_of(model):
                rates = Rates(each.requests_per_minute, each.tokens_per_minute, each.ramp_s)
                access = each.api_key if isinstance(each, OpenAIEndpointSettings) else settings.bedrock
                named[key_of(each, model, settings)].append(Naming(rates, access))
        self.targets.attend(named)

    def catalogue(self, settings: Settings, key: TargetKey) -> Catalogue | None:
        """Where AWS tells which models it is about to take away; None: AWS is not asked, something is in its place."""
        if key.endpoint is not None:
            return None
        return Catalogue(self._client, self._signers.of(settings.bedrock, key.place), catalogue_url(key.place))

    def _bedrock(
        self,
        bedrock: ModelBedrockSettings,
        model: ModelSettings,
        settings: Settings,
        price: Callable[[], Price],
        kept: dict[Hashable, Fallback],
    ) -> Fallback:
        first_event_s = first_event_wait_s(bedrock, model, settings)
        made_from = (bedrock.model_copy(update=_NOT_OF_THE_BACKEND), settings.bedrock, first_event_s)
        region = _region(bedrock, settings)
        former = kept.get(made_from)
        backend = (
            former.backend if former is not None else self._bedrock_backend(bedrock, settings, region, first_event_s)
        )
        return Fallback(
            backend=backend,
            kind="bedrock",
            target=self.targets.of(_bedrock_key(bedrock, settings)),
            price=price if bedrock.price is None else price_of(bedrock.price, None),
            paths=BEDROCK_PATHS,
            context_tokens=bedrock.context_tokens,
            max_output_tokens=bedrock.max_output_tokens or output_cap(bedrock.model_id),
            default_max_tokens=bedrock.default_max_tokens,
            output_weight=CLAUDE_OUTPUT_WEIGHT if _weighs_more(bedrock.model_id) else 1.0,
            made_from=made_from,
        )

    def _bedrock_backend(
        self, bedrock: ModelBedrockSettings, settings: Settings, region: str, first_event_s: float
    ) -> BedrockBackend:
        return BedrockBackend(
            model_id=bedrock.model_id,
            region=region,
            client=self._client,
            signer=self._signers.of(settings.bedrock, region),
            endpoint_url=bedrock.endpoint_url or settings.bedrock.endpoint_url,
            wire=bedrock.wire,
            family=bedrock.family,
            context_tokens=bedrock.context_tokens,
            default_max_tokens=bedrock.default_max_tokens,
            max_output_tokens=bedrock.max_output_tokens,
            reasoning_field=bedrock.reasoning_field,
            timeouts=BedrockTimeouts(first_event_s=first_event_s),
            learnt=self.targets.of(_bedrock_key(bedrock, settings)).learnt,
        )

    def _openai(
        self,
        openai: OpenAIEndpointSettings,
        model: ModelSettings,
        settings: Settings,
        price: Callable[[], Price],
        kept: dict[Hashable, Fallback],
    ) -> Fallback:
        made_from = (openai.model_copy(update=_NOT_OF_THE_BACKEND), model.name, settings.timeouts)
        former = kept.get(made_from)
        if former is not None:
            backend, connections = former.backend, former.connections
        else:
            backend = connections = self._openai_endpoint(openai, model, settings)
        return Fallback(
            backend=backend,
            kind="openai",
            target=self.targets.of(_openai_key(openai, model)),
            price=price if openai.price is None else price_of(openai.price, None),
            paths=PATHS,
            context_tokens=openai.context_tokens,
            max_output_tokens=openai.max_output_tokens,
            connections=connections,
            made_from=made_from,
        )

    def _openai_endpoint(
        self, openai: OpenAIEndpointSettings, model: ModelSettings, settings: Settings
    ) -> OpenAIEndpoint:
        return OpenAIEndpoint(
            openai.id or f"openai:{urlsplit(openai.url).netloc}",
            openai.url,
            model=openai.model or model.name,
            api_key=openai.api_key.get_secret_value() if openai.api_key else None,
            max_output_tokens=openai.max_output_tokens,
            timeouts=timeouts_of(settings),
            clock=self._clock,
        )


def timeouts_of(settings: Settings) -> Timeouts:
    """How long a worker may take, or another endpoint that speaks like one."""
    patience = settings.timeouts
    return Timeouts(
        connect_s=patience.connect_s,
        first_byte_s=patience.first_byte_s,
        idle_s=patience.idle_s,
        total_s=patience.total_s,
    )


def fallbacks_of(model: ModelSettings) -> Iterator[ModelBedrockSettings | OpenAIEndpointSettings]:
    """In order; ``bedrock`` of the model is the last."""
    for fallback in model.fallbacks:
        if fallback.bedrock is not None:
            yield fallback.bedrock
        if fallback.openai is not None:
            yield fallback.openai
    if model.bedrock is not None:
        yield model.bedrock


def key_of(
    fallback: ModelBedrockSettings | OpenAIEndpointSettings, model: ModelSettings, settings: Settings
) -> TargetKey:
    """What *fallback* of *model* leads to."""
    if isinstance(fallback, OpenAIEndpointSettings):
        return _openai_key(fallback, model)
    return _bedrock_key(fallback, settings)


def price_of(price: PriceSettings, token_times: TokenTimes | None) -> Callable[[], Price]:
    """What tokens cost by *price*, at each moment that it is asked."""
    if price.gpu_hour_usd is not None and token_times is not None:
        usd, times = price.gpu_hour_usd, token_times

        def at_present() -> Price:
            prefill_s, decode_s = times()
            return Price.per_gpu_hour(usd, prefill_s_per_token=prefill_s, decode_s_per_token=decode_s)

        return at_present
    listed = Price.per_million(
        input_usd=price.input_usd, cached_input_usd=price.cached_input_usd, output_usd=price.output_usd
    )
    return lambda: listed


def canary_rules(settings: Settings) -> CanaryRules:
    return CanaryRules(at_start=settings.bedrock.canary_at_start, every_s=settings.bedrock.canary_every_s)


def _region(bedrock: ModelBedrockSettings, settings: Settings) -> str:
    region = bedrock.region or settings.bedrock.region
    assert region is not None, "the settings see to it"
    return region


def first_event_wait_s(bedrock: ModelBedrockSettings, model: ModelSettings, settings: Settings) -> float:
    """How long to wait for the first event: where nobody else could answer as long as for the last worker.

    A wait that the settings name is kept to.
    """
    is_last = not model.has_fleet and len(list(fallbacks_of(model))) == 1
    if "first_event_timeout_s" in bedrock.model_fields_set or not is_last:
        return bedrock.first_event_timeout_s
    return max(bedrock.first_event_timeout_s, settings.timeouts.first_byte_s)


def _bedrock_key(bedrock: ModelBedrockSettings, settings: Settings) -> TargetKey:
    endpoint = bedrock.endpoint_url or settings.bedrock.endpoint_url
    return TargetKey("bedrock", _region(bedrock, settings), bedrock.model_id, endpoint)


def _openai_key(openai: OpenAIEndpointSettings, model: ModelSettings) -> TargetKey:
    return TargetKey("openai", openai.url, openai.model or model.name)
