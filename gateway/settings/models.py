"""The groups for models and their workers."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_types import Alias, Group, ModelName, StrategyName, Token, WorkerUrl
from gateway.protocol.worker_address import endpoint, id_of_address
from gateway.settings.adapters import AdapterSettings
from gateway.settings.disaggregation import DisaggregationSettings, RoleName, misplaced
from gateway.settings.discovery import DnsSettings, PodsSettings, ServiceSettings
from gateway.settings.dynamo import DynamoSettings
from gateway.settings.engine_events import WorkerEventsSettings
from gateway.settings.fallbacks import (
    FallbackSettings,
    PriceSettings,
    SpillSettings,
)
from gateway.settings.guardrails import GuardrailNames
from gateway.settings.rules import Count, EngineField, FileName, HeaderName, Positive, Secret, unless_contradictory


class WorkerSettings(Group):
    url: WorkerUrl = Field(description="address of the model server, e.g. http://10.0.0.5:8000")
    id: Token = Field(
        default_factory=lambda fields: id_of_address(fields["url"]),
        description="name in headers, logs and metrics; default: worker- and a digest of its url",
    )
    api_key: Secret | None = Field(default=None, description="key sent to this worker as a bearer token")
    tier: int = Field(
        default=0, ge=0, le=99, description="priority group of the worker: tier 1 is used when tier 0 cannot serve"
    )
    role: RoleName = Field(default="both", description="part of a request that it computes: both, prefill or decode")
    bootstrap_port: int | None = Field(
        default=None, ge=1, le=65535, description="port on which SGLang decode workers contact it; null: 8998"
    )
    draining: bool = Field(
        default=False, description="drain: the worker gets no new requests, and its long streams move to other workers"
    )
    max_connections: Count | None = Field(
        default=None, description="connections to this worker at once; null: no limit"
    )
    kv_events: WorkerEventsSettings | None = Field(
        default=None,
        description="KV event stream of its engine; null: the engine is asked for it (vLLM from 0.31, SGLang)",
    )
    zone: Token | None = Field(default=None, description="zone of the worker, e.g. us-east-1a; null: not known")
    uid: Token | None = Field(
        default=None, description="identity of the worker: a new uid means a new worker, even with the same id and url"
    )
    ranks: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="data-parallel ranks behind url, each a worker of its own (ID#0, ID#1 ...); 0: the engine is asked",
    )
    dynamo: DynamoSettings | None = Field(
        default=None,
        description="Dynamo frontend whose workers are routed to individually; null: a single worker",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found: list[Contradiction] = []
        event_ranks = 1 if self.kv_events is None else self.kv_events.ranks
        if self.ranks > 1 and event_ranks > 1 and self.ranks != event_ranks:
            found.append(Contradiction(("ranks",), "is another number than", ("kv_events", "ranks")))
        if self.dynamo is not None and self.kv_events is not None:
            found.append(Contradiction(("kv_events",), "cannot be beside dynamo, whose instances have their own"))
        if self.dynamo is not None and self.ranks == 0:
            found.append(Contradiction(("ranks",), "must be set beside dynamo: a frontend does not report it"))
        return unless_contradictory(self, found)

    @property
    def is_shared(self) -> bool:
        """Whether several workers may share its url."""
        event_ranks = 1 if self.kv_events is None else self.kv_events.ranks
        return self.dynamo is not None or self.ranks != 1 or event_ranks > 1


class TokenizerSettings(Group):
    source: Literal["auto", "local", "engine", "none"] = Field(
        default="auto",
        description="source of exact tokens: local (from path), engine (over HTTP), auto (the first that can), none",
    )
    path: FileName | None = Field(
        default=None,
        description="folder with tokenizer.json, tokenizer_config.json and chat template; needs warmgate[tokenizer]",
    )
    budget_s: Positive = Field(default=0.05, description="longest wait for tokens; after it the text is used")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.source == "local" and self.path is None:
            return unless_contradictory(self, [Contradiction(("path",), "is needed where source is local")])
        return self


class ModelSettings(Group):
    name: ModelName = Field(description="model name that clients use")
    aliases: Annotated[tuple[Alias, ...], Field(strict=False)] = Field(
        default=(), description="further names; a trailing * matches any ending, e.g. gpt-4*"
    )
    strategy: StrategyName = Field(default="prefix_aware", description="how a worker is chosen, see Strategies")
    strategy_header: bool = Field(
        default=False,
        description="allow the header x-warmgate-strategy to choose the strategy; false: ignore it",
    )
    upstream_model: ModelName = Field(
        default_factory=lambda fields: fields["name"], description="name sent to the workers; default: name"
    )
    adapter: AdapterSettings | None = Field(
        default=None, description="LoRA adapter of another model; null: a separate model"
    )
    session_header: HeaderName = Field(
        default="x-session-id", description="request header that names the session, for the session strategy"
    )
    workers: Annotated[tuple[WorkerSettings, ...], Field(strict=False)] = Field(
        default=(), description="the model servers"
    )
    workers_file: FileName | None = Field(
        default=None, description="YAML or JSON file with a list of more workers, followed while running"
    )
    service: ServiceSettings | None = Field(
        default=None, description="more workers: the endpoints of a Service in Kubernetes; null: none"
    )
    pods: PodsSettings | None = Field(
        default=None, description="more workers: pods in Kubernetes, by their labels; null: none"
    )
    dns: DnsSettings | None = Field(default=None, description="more workers: the addresses of a name; null: none")
    tokenizer: TokenizerSettings = Field(
        default=TokenizerSettings(),
        description="exact tokens of prompts, which kv_aware compares with the KV events of engines",
    )
    disaggregation: DisaggregationSettings | None = Field(
        default=None, description="some workers compute prompts, others generate answers; null: each does both"
    )
    continuation: Literal["off", "tokens", "text"] = Field(
        default="off",
        description="move streams of a dead worker to another: tokens: only if exact; text: otherwise as text",
    )
    context_tokens: Count | None = Field(
        default=None,
        description="longest prompt and output together that its workers take; longer ones go to fallbacks",
    )
    answer_model: Literal["asked", "backend"] = Field(
        default="asked",
        description="model name in answers: asked: as in the request; backend: as the backend reports it",
    )
    fallbacks: Annotated[tuple[FallbackSettings, ...], Field(strict=False)] = Field(
        default=(), description="fallbacks, tried in this order when no worker can answer"
    )
    spill: SpillSettings = Field(default=SpillSettings(), description="cost limit and conditions of its fallbacks")
    price: PriceSettings = Field(default=PriceSettings(), description="price of its tokens, for budgets and the ledger")
    max_output_tokens: Count | None = Field(
        default=None, description="maximum tokens of an answer; no more are reserved"
    )
    allowed_engine_fields: Annotated[tuple[EngineField, ...], Field(strict=False)] = Field(
        default=(),
        description="fields internal to engines that callers may send, e.g. priority; all others are answered 400",
    )
    allow_background: bool = Field(
        default=False,
        description="allow background: true in /v1/responses; charged as the longest possible answer",
    )
    guardrails: GuardrailNames = Field(
        default=(), description="names of guardrails that check its requests and answers"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = repeated([(("workers", i, "url"), endpoint(worker.url)) for i, worker in enumerate(self.workers)])
        # An id that was not given is the url: one sentence is enough.
        found = found or repeated([(("workers", i, "id"), worker.id) for i, worker in enumerate(self.workers)])
        shared = {worker.id: i for i, worker in enumerate(self.workers) if worker.is_shared}
        text = "is what one may be called that stands behind"
        found += [
            Contradiction(("workers", i, "id"), text, ("workers", shared[worker.id.rpartition("#")[0]], "url"))
            for i, worker in enumerate(self.workers)
            if worker.id.rpartition("#")[0] in shared
        ]
        found += misplaced(self.workers, self.disaggregation, are_all=not self._is_found)
        if not self.workers and not self._is_found and not self.fallbacks:
            text = "is empty; a model needs at least one worker, or a workers_file, or a fallback"
            found.append(Contradiction(("workers",), text))
        return unless_contradictory(self, found)

    @property
    def adapter_base(self) -> str | None:
        """Base model of the LoRA adapter; None: it is not an adapter."""
        return None if self.adapter is None else self.adapter.of

    @property
    def adapter_name(self) -> str | None:
        """Name of the adapter at its workers; None: it is a model of its own."""
        if self.adapter is not None and self.adapter.name is not None:
            return self.adapter.name
        return None if self.adapter_base is None else self.upstream_model

    @property
    def has_fleet(self) -> bool:
        """Whether workers may ever serve it; if not, only its fallbacks do."""
        return bool(self.workers) or self._is_found

    @property
    def _is_found(self) -> bool:
        """Whether unlisted workers may appear."""
        return any(source is not None for source in (self.workers_file, self.service, self.pods, self.dns))


def unpriced_fallbacks(models: Sequence[ModelSettings]) -> Iterator[str]:
    """Return a sentence for each fallback without a price that a limit in dollars is to bound."""
    for i, model in enumerate(models):
        limit = model.spill.usd_per_hour
        for j, fallback in enumerate(model.fallbacks if limit is not None else ()):
            price = fallback.group.price or model.price
            if type(price)() == price:
                place = f"models[{i}].fallbacks[{j}].{fallback.kind}"
                yield f"models[{i}].spill.usd_per_hour does not bound {place}, which has no price: set {place}.price."
