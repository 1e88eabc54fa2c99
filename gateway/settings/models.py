"""The groups for models and their workers."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.settings.adapters import AdapterSettings
from gateway.settings.disaggregation import DisaggregationSettings, RoleName, misplaced
from gateway.settings.discovery import DnsSettings, PodsSettings, ServiceSettings
from gateway.settings.dynamo import DynamoSettings
from gateway.settings.engine_events import WorkerEventsSettings
from gateway.settings.fallbacks import (
    FallbackSettings,
    ModelBedrockSettings,
    PriceSettings,
    SpillSettings,
)
from gateway.settings.group import Group
from gateway.settings.guardrails import GuardrailNames
from gateway.settings.rules import (
    Alias,
    Contradiction,
    Count,
    EngineField,
    FileName,
    HeaderName,
    ModelName,
    Positive,
    Secret,
    StrategyName,
    Token,
    WorkerUrl,
    endpoint,
    id_of_address,
    repeated,
    unless_contradictory,
)
from routing.strategies import NAMES


class WorkerSettings(Group):
    url: WorkerUrl = Field(description="address of the model server, e.g. http://10.0.0.5:8000")
    id: Token = Field(
        default_factory=lambda fields: id_of_address(fields["url"]),
        description="name in headers, logs and metrics; default: worker- and a digest of its url",
    )
    api_key: Secret | None = Field(default=None, description="key sent to this worker as a bearer token")
    tier: int = Field(
        default=0, ge=0, le=99, description="pool that it belongs to: those of tier 1 are asked when those of 0 cannot"
    )
    role: RoleName = Field(
        default="both", description="what it does: whole requests (both), or the half named: prefill, decode"
    )
    bootstrap_port: int | None = Field(
        default=None, ge=1, le=65535, description="where decode workers meet it, for SGLang; null: 8998"
    )
    draining: bool = Field(
        default=False, description="it is to get no more requests, and long streams are handed over: it will go away"
    )
    max_connections: Count | None = Field(
        default=None, description="connections to this worker at once; null: no limit"
    )
    kv_events: WorkerEventsSettings | None = Field(
        default=None,
        description="where its engine tells of its cache; null: the engine is asked (vLLM from 0.31, SGLang)",
    )
    zone: Token | None = Field(default=None, description="where it stands, e.g. us-east-1a; null: nobody knows")
    uid: Token | None = Field(
        default=None, description="its identity: with another one it is another worker, whatever its id and url"
    )
    ranks: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="data-parallel ranks behind url, each a worker of its own (ID#0, ID#1 ...); 0: the engine is asked",
    )
    dynamo: DynamoSettings | None = Field(
        default=None,
        description="it is a Dynamo frontend, and each worker behind it one of ours; null: it is one worker",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found: list[Contradiction] = []
        told = 1 if self.kv_events is None else self.kv_events.ranks
        if self.ranks > 1 and told > 1 and self.ranks != told:
            found.append(Contradiction(("ranks",), "is another number than", ("kv_events", "ranks")))
        if self.dynamo is not None and self.kv_events is not None:
            found.append(Contradiction(("kv_events",), "cannot be beside dynamo, whose instances have their own"))
        if self.dynamo is not None and self.ranks == 0:
            found.append(Contradiction(("ranks",), "must be said beside dynamo: a frontend does not tell it"))
        return unless_contradictory(self, found)

    @property
    def is_shared(self) -> bool:
        """Whether several may stand behind its url."""
        told = 1 if self.kv_events is None else self.kv_events.ranks
        return self.dynamo is not None or self.ranks != 1 or told > 1


class TokenizerSettings(Group):
    source: Literal["auto", "local", "engine", "none"] = Field(
        default="auto",
        description="who tells the exact tokens: local (from path), engine (asked), auto (the first that can), none",
    )
    path: FileName | None = Field(
        default=None,
        description="folder with tokenizer.json, tokenizer_config.json and chat template; needs warmgate[tokenizer]",
    )
    budget_s: Positive = Field(default=0.05, description="longest wait for tokens; then text has to do")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.source == "local" and self.path is None:
            return unless_contradictory(self, [Contradiction(("path",), "is needed where source is local")])
        return self


class ModelSettings(Group):
    name: ModelName = Field(description="name under which clients ask")
    aliases: Annotated[tuple[Alias, ...], Field(strict=False)] = Field(
        default=(), description="more names; one that ends in * stands for every name that begins so, e.g. gpt-4*"
    )
    strategy: StrategyName = Field(default="prefix_aware", description=f"how a worker is chosen: {', '.join(NAMES)}")
    strategy_header: bool = Field(
        default=False,
        description="a request may name its strategy in the header x-warmgate-strategy; false: that is ignored",
    )
    upstream_model: ModelName = Field(
        default_factory=lambda fields: fields["name"], description="name sent to the workers; default: name"
    )
    adapter_of: ModelName | None = Field(
        default=None, description="upstream_model is a LoRA adapter of this model; null: it is a model of its own"
    )
    adapter: AdapterSettings | None = Field(
        default=None, description="the same with more to say of the adapter, in place of adapter_of; null: as that says"
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
        description="exact tokens of prompts, which kv_aware compares with what engines tell",
    )
    disaggregation: DisaggregationSettings | None = Field(
        default=None, description="some workers compute prompts, others generate answers; null: each does both"
    )
    continuation: Literal["off", "tokens", "text"] = Field(
        default="off",
        description="a stream whose worker dies goes on at another: tokens: where that is exact; text: else by text",
    )
    context_tokens: Count | None = Field(
        default=None,
        description="longest prompt and output together that its workers take; longer ones go to fallbacks",
    )
    answer_model: Literal["asked", "backend"] = Field(
        default="asked",
        description="the model's name in answers: asked: as the request has it; backend: as the backend says",
    )
    fallbacks: Annotated[tuple[FallbackSettings, ...], Field(strict=False)] = Field(
        default=(), description="answer in this order when no worker can"
    )
    bedrock: ModelBedrockSettings | None = Field(
        default=None, description="one more fallback, after all others; null: none"
    )
    spill: SpillSettings = Field(default=SpillSettings(), description="what its fallbacks may cost, and when they help")
    price: PriceSettings = Field(
        default=PriceSettings(), description="what its tokens cost, for budgets and the ledger"
    )
    max_output_tokens: Count | None = Field(
        default=None, description="most tokens that an answer can have; what is reserved is no more than that"
    )
    allowed_engine_fields: Annotated[tuple[EngineField, ...], Field(strict=False)] = Field(
        default=(),
        description="fields internal to engines that callers may send, e.g. priority; all others are answered 400",
    )
    allow_background: bool = Field(
        default=False,
        description="teams may send background: true to /v1/responses; that is charged the longest possible answer",
    )
    guardrails: GuardrailNames = Field(
        default=(), description="names of guardrails that look at its requests and answers"
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
        if not self.workers and not self._is_found and not self.fallbacks and self.bedrock is None:
            text = "is empty; a model needs at least one worker, or a workers_file, or a fallback"
            found.append(Contradiction(("workers",), text))
        if self.adapter is not None and self.adapter_of not in {None, self.adapter.of}:
            found.append(Contradiction(("adapter_of",), "is another model than", ("adapter", "of")))
        return unless_contradictory(self, found)

    @property
    def adapter_base(self) -> str | None:
        """The model that it is a LoRA adapter of; None: it is none."""
        return self.adapter_of if self.adapter is None else self.adapter.of

    @property
    def adapter_name(self) -> str | None:
        """What its workers call the adapter; None: it is none."""
        if self.adapter is not None and self.adapter.name is not None:
            return self.adapter.name
        return None if self.adapter_base is None else self.upstream_model

    @property
    def has_fleet(self) -> bool:
        """Whether workers may ever serve it; if not, only its fallbacks do."""
        return bool(self.workers) or self._is_found

    @property
    def _is_found(self) -> bool:
        """Whether workers may come that are not listed."""
        return any(source is not None for source in (self.workers_file, self.service, self.pods, self.dns))
