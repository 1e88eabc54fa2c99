"""Settings for models and their workers."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gateway.protocol.contradictions import Contradiction, repeated
from gateway.protocol.field_types import Alias, Group, ModelName, StrategyName, Token, WorkerUrl
from gateway.protocol.worker_address import endpoint, id_of_address
from gateway.settings.adapters import AdapterSettings
from gateway.settings.disaggregation import DisaggregationSettings, RoleName, misplaced
from gateway.settings.discovery import DnsSettings, InferencePoolSettings, PodsSettings, ServiceSettings
from gateway.settings.dynamo import DynamoSettings
from gateway.settings.engine_events import WorkerEventsSettings
from gateway.settings.fallbacks import (
    FallbackSettings,
    PriceSettings,
    SpillSettings,
)
from gateway.settings.guardrails import GuardrailNames
from gateway.settings.pulls import PullSettings, impossible_pulls
from gateway.settings.rules import Count, EngineField, FileName, HeaderName, Positive, Secret, unless_contradictory
from routing.strategies import STRATEGIES


class WorkerSettings(Group):
    url: WorkerUrl = Field(description="base URL of the model server, e.g. http://10.0.0.5:8000")
    id: Token = Field(
        default_factory=lambda fields: id_of_address(fields["url"]),
        description='name of the worker in headers, logs and metrics. The default is "worker-" and a digest of the '
        "worker's url.",
    )
    api_key: Secret | None = Field(
        default=None, description="API key that the gateway sends to the worker as a bearer token"
    )
    tier: int = Field(
        default=0,
        ge=0,
        le=99,
        description="priority group of the worker. Workers of tier 1 get requests only if no worker of tier 0 is "
        "available, or if requests would wait too long for tier 0.",
    )
    role: RoleName = Field(
        default="both",
        description="part of a request that the worker computes: prefill (the prompt), decode (the answer) or both",
    )
    bootstrap_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="port of an SGLang prefill worker to which decode workers connect (its bootstrap port). Null "
        "means 8998.",
    )
    pull_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="port at which other workers pull cached blocks from the worker's host memory "
        "(VLLM_P2P_SIDE_CHANNEL_PORT). Null means the port in the model's pull settings.",
    )
    draining: bool = Field(
        default=False,
        description="drain the worker: it gets no new requests, and its long streams move to other workers",
    )
    max_connections: Count | None = Field(
        default=None, description="maximum number of connections to the worker. Null means no limit."
    )
    kv_events: WorkerEventsSettings | None = Field(
        default=None,
        description="KV event stream of the worker's engine. Null means that the gateway asks the engine for the "
        "stream (vLLM since 0.31, SGLang).",
    )
    zone: Token | None = Field(
        default=None,
        description="availability zone of the worker, e.g. us-east-1a. Null means that the zone is unknown.",
    )
    uid: Token | None = Field(
        default=None,
        description="unique id of the worker's current process or pod. A changed uid means a new worker with an "
        "empty cache, even if id and url stay the same.",
    )
    ranks: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="number of data-parallel ranks behind the worker's url. Each rank becomes a worker (ID#0, ID#1, "
        "...). With 0, the gateway asks the engine for the number of ranks.",
    )
    dynamo: DynamoSettings | None = Field(
        default=None,
        description="Dynamo frontend at the worker's url. The gateway routes requests to the individual workers of "
        "the frontend. Null means that the url is a single worker.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found: list[Contradiction] = []
        event_ranks = 1 if self.kv_events is None else self.kv_events.ranks
        if self.ranks > 1 and event_ranks > 1 and self.ranks != event_ranks:
            found.append(Contradiction(("ranks",), "differs from", ("kv_events", "ranks")))
        if self.dynamo is not None and self.kv_events is not None:
            found.append(
                Contradiction(
                    ("kv_events",), "cannot be combined with dynamo, whose instances have their own event streams"
                )
            )
        if self.dynamo is not None and self.ranks == 0:
            found.append(
                Contradiction(
                    ("ranks",), "must be above 0 if dynamo is set, because a frontend does not report its ranks"
                )
            )
        return unless_contradictory(self, found)

    @property
    def is_shared(self) -> bool:
        """Whether the URL of the worker can serve several workers, such as data-parallel ranks."""
        event_ranks = 1 if self.kv_events is None else self.kv_events.ranks
        return self.dynamo is not None or self.ranks != 1 or event_ranks > 1


class TokenizerSettings(Group):
    source: Literal["auto", "local", "engine", "none"] = Field(
        default="auto",
        description="source of exact prompt tokens: local (the tokenizer in path), engine (a worker, over HTTP), "
        "auto (the first source that works) or none",
    )
    path: FileName | None = Field(
        default=None,
        description="folder with the model's tokenizer.json, tokenizer_config.json and chat template. Local "
        "tokenizers need the extra warmgate[tokenizer].",
    )
    budget_s: Positive = Field(
        default=0.05,
        description="maximum seconds that a request waits for its exact tokens. After that, the text of the "
        "prompt is used instead.",
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.source == "local" and self.path is None:
            return unless_contradictory(self, [Contradiction(("path",), "is required if source is local")])
        return self


class ModelSettings(Group):
    name: ModelName = Field(description="model name that clients use in requests")
    aliases: Annotated[tuple[Alias, ...], Field(strict=False)] = Field(
        default=(), description="additional names of the model. A trailing * matches any ending, e.g. gpt-4*."
    )
    strategy: StrategyName = Field(
        default="prefix_aware",
        description="strategy that chooses a worker for each request: prefix_aware, kv_aware, session, least_loaded or "
        "round_robin",
    )
    strategy_header: bool = Field(
        default=False,
        description="allow callers to choose the strategy with the header x-warmgate-strategy. With false, the "
        "header is ignored.",
    )
    upstream_model: ModelName = Field(
        default_factory=lambda fields: fields["name"],
        description="model name that the gateway sends to the workers. The default is the model's name.",
    )
    adapter: AdapterSettings | None = Field(
        default=None, description="LoRA adapter that the model uses. Null means that the model is not a LoRA adapter."
    )
    session_header: HeaderName = Field(
        default="x-session-id",
        description="request header that names the session. It takes precedence over the session headers of "
        "common agents, which the gateway always reads.",
    )
    workers: Annotated[tuple[WorkerSettings, ...], Field(strict=False)] = Field(
        default=(), description="model servers that serve the model"
    )
    workers_file: FileName | None = Field(
        default=None,
        description="YAML or JSON file with a list of additional workers. The gateway reads the file again after "
        "each change.",
    )
    service: ServiceSettings | None = Field(
        default=None, description="Kubernetes Service whose endpoints are additional workers. Null means no Service."
    )
    pods: PodsSettings | None = Field(
        default=None, description="labels of the Kubernetes pods that are additional workers. Null means no pods."
    )
    inference_pool: InferencePoolSettings | None = Field(
        default=None,
        description="InferencePool (inference.networking.k8s.io/v1) whose endpoints are additional workers. Null means "
        "no InferencePool.",
    )
    dns: DnsSettings | None = Field(
        default=None, description="DNS name whose addresses are additional workers. Null means no DNS name."
    )
    tokenizer: TokenizerSettings = Field(
        default=TokenizerSettings(),
        description="source of exact prompt tokens, which kv_aware compares with the KV events of engines",
    )
    disaggregation: DisaggregationSettings | None = Field(
        default=None,
        description="settings for separate prefill and decode workers. Null means that each worker serves whole "
        "requests.",
    )
    pull: PullSettings | None = Field(
        default=None,
        description="settings for pulls, with which a worker loads cached blocks from the host memory of another "
        "worker (vLLM since 0.33 with a p2p tier). Null means no pulls.",
    )
    continuation: Literal["off", "tokens", "text"] = Field(
        default="off",
        description="whether another worker continues the stream of a failed worker: off (never), tokens (only if "
        "the continuation is exact) or text (from the text if no exact continuation is possible)",
    )
    context_tokens: Count | None = Field(
        default=None,
        description="maximum number of prompt and output tokens together that the workers accept. Longer requests go "
        "to a fallback.",
    )
    answer_model: Literal["asked", "backend"] = Field(
        default="asked",
        description="model name in answers: asked (the name in the request) or backend (the name that the "
        "backend reports)",
    )
    fallbacks: Annotated[tuple[FallbackSettings, ...], Field(strict=False)] = Field(
        default=(), description="fallbacks for requests that no worker can answer, in the order in which they are tried"
    )
    spill: SpillSettings = Field(
        default=SpillSettings(), description="cost limit for the model's fallbacks, and conditions for using them"
    )
    price: PriceSettings = Field(
        default=PriceSettings(), description="price of the model's tokens, for budgets and the ledger"
    )
    max_output_tokens: Count | None = Field(
        default=None,
        description="maximum number of tokens that the model generates for a request. Budgets reserve at most "
        "this many tokens.",
    )
    allowed_engine_fields: Annotated[tuple[EngineField, ...], Field(strict=False)] = Field(
        default=(),
        description="engine-internal request fields that the gateway accepts from callers, e.g. priority. Requests "
        "with other internal fields get status 400.",
    )
    engine_priority: Literal["none", "low_first", "high_first"] = Field(
        default="none",
        description="priority of a request (batch, low, normal or high) that the gateway sends to the workers' "
        "engines: low_first (high is -1, low is 1, batch is 2: vLLM with --scheduling-policy priority), high_first "
        "(high is 1, low is -1, batch is -2: "
        "SGLang with --enable-priority-scheduling) or none",
    )
    allow_background: bool = Field(
        default=False,
        description="allow background: true in /v1/responses. Budgets charge such a request for the longest possible "
        "answer.",
    )
    response_cache: Literal["off", "on_request", "always"] = Field(
        default="off",
        description="whether the gateway keeps complete, repeatable answers of the model and sends them again: off, "
        "on_request (for requests with the header x-warmgate-cache: use) or always. See response_cache.",
    )
    guardrails: GuardrailNames = Field(
        default=(), description="names of the guardrails that check the requests and answers of the model"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        found = repeated([(("workers", i, "url"), endpoint(worker.url)) for i, worker in enumerate(self.workers)])
        # An id that was not given is the url: one sentence is enough.
        found = found or repeated([(("workers", i, "id"), worker.id) for i, worker in enumerate(self.workers)])
        shared = {worker.id: i for i, worker in enumerate(self.workers) if worker.is_shared}
        text = "is reserved for one of the workers behind"
        found += [
            Contradiction(("workers", i, "id"), text, ("workers", shared[worker.id.rpartition("#")[0]], "url"))
            for i, worker in enumerate(self.workers)
            if worker.id.rpartition("#")[0] in shared
        ]
        if self.engine_priority != "none":
            text = "cannot be combined with engine_priority. Dynamo does not read the field priority"
            dynamo = [i for i, worker in enumerate(self.workers) if worker.dynamo is not None]
            found += [Contradiction(("workers", i, "dynamo"), text) for i in dynamo]
        found += misplaced(self.workers, self.disaggregation, are_all=not self._is_found)
        needs_events = self.strategy_header or STRATEGIES[self.strategy].needs_events
        found += impossible_pulls(
            self.workers, self.pull, needs_events=needs_events, is_divided=self.disaggregation is not None
        )
        if not self.workers and not self._is_found and not self.fallbacks:
            text = "is empty. A model needs at least one worker, or a workers_file, or a fallback"
            found.append(Contradiction(("workers",), text))
        return unless_contradictory(self, found)

    @property
    def adapter_base(self) -> str | None:
        """Name of the base model of the LoRA adapter, or None if the model is not an adapter."""
        return None if self.adapter is None else self.adapter.of

    @property
    def adapter_name(self) -> str | None:
        """Name of the LoRA adapter on its workers, or None if the model is not an adapter."""
        if self.adapter is not None and self.adapter.name is not None:
            return self.adapter.name
        return None if self.adapter_base is None else self.upstream_model

    @property
    def has_fleet(self) -> bool:
        """Whether the model can have workers. If not, only its fallbacks serve it."""
        return bool(self.workers) or self._is_found

    @property
    def _is_found(self) -> bool:
        """Whether discovery can find workers that the settings do not list."""
        sources = (self.workers_file, self.service, self.pods, self.inference_pool, self.dns)
        return any(source is not None for source in sources)


def unpriced_fallbacks(models: Sequence[ModelSettings]) -> Iterator[str]:
    """Yield a warning for each fallback that has a cost limit in dollars but no price."""
    for i, model in enumerate(models):
        limit = model.spill.usd_per_hour
        for j, fallback in enumerate(model.fallbacks if limit is not None else ()):
            price = fallback.group.price or model.price
            if type(price)() == price:
                place = f"models[{i}].fallbacks[{j}].{fallback.kind}"
                yield f"models[{i}].spill.usd_per_hour does not bound {place}, which has no price: set {place}.price."
