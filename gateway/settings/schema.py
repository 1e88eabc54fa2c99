"""The settings themselves, a group per seam.

A setting is declared once: field, unit in its name, default, bounds and description are what the README's table shows.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gateway.settings.adapters import AdapterSettings, AdaptersSettings
from gateway.settings.disaggregation import DisaggregationSettings, RoleName, misplaced
from gateway.settings.discovery import DnsSettings, KubernetesSettings, PodsSettings, ServiceSettings
from gateway.settings.dynamo import DynamoSettings
from gateway.settings.engine_events import WorkerEventsSettings
from gateway.settings.fallbacks import (
    BedrockSettings,
    FallbackSettings,
    ModelBedrockSettings,
    PriceSettings,
    SpillSettings,
)
from gateway.settings.group import Group
from gateway.settings.guardrails import GuardrailNames, GuardrailSettings, unknown_guardrails
from gateway.settings.names import Place
from gateway.settings.rollout import RouteSettings, unknown_models
from gateway.settings.rules import (
    Alias,
    Burst,
    Contradiction,
    Count,
    EntityName,
    FileName,
    HeaderName,
    ModelName,
    Names,
    Networks,
    NotNegative,
    Positive,
    PriorityName,
    Secret,
    Sha256,
    Share,
    StoreUrl,
    StrategyName,
    TimeZone,
    Token,
    UrlPath,
    VariableName,
    WhenAway,
    WorkerUrl,
    ZmqAddress,
    ambiguous,
    endpoint,
    repeated,
    unless_contradictory,
)
from gateway.settings.tracing import DestinationSettings, TracingSettings
from routing.strategies import NAMES


class ServerSettings(Group):
    host: Token = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 for all of IPv4")
    port: int = Field(default=8080, ge=0, le=65535, description="port to listen on; 0 takes a free one (uvicorn only)")
    reuse_port: bool = Field(
        default=False,
        description="several gateways of one machine may listen on port, and share its clients (uvicorn only)",
    )
    probes_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="one more for /livez, /readyz and /metrics, which answers when port has no room; null: none",
    )
    implementation: Literal["uvicorn", "granian"] = Field(
        default="uvicorn", description="HTTP server; granian needs the extra warmgate[granian]"
    )
    max_body_bytes: Count = Field(default=32 * 2**20, description="largest request body; more is answered 413")
    max_connections: Count = Field(default=10_000, description="client connections open at once")
    max_header_bytes: int = Field(
        default=64 * 2**10, ge=8192, description="largest request line and headers together; more is answered 431"
    )
    keep_alive_s: Count = Field(default=75, description="how long an idle client connection stays open")
    body_idle_s: Positive = Field(
        default=60, description="how long a client may pause while it sends a body (uvicorn only)"
    )
    unread_s: Positive = Field(
        default=300, description="how long a client may leave an answer unread, all buffers being full (uvicorn only)"
    )
    sse_keep_alive_s: Positive | None = Field(
        default=15, description="a stream that is silent for this long gets a comment; null: never"
    )
    stop_delay_s: NotNegative = Field(
        default=0, description="after SIGTERM requests are still taken for so long, while /readyz says 503 already"
    )
    shutdown_grace_s: int = Field(default=30, ge=0, description="how long running requests may take to end at a stop")
    admin_token: Secret | None = Field(
        default=None, description="bearer token for the routes under /warmgate; null: they are closed"
    )
    zone: Token | None = Field(
        default=None, description="where this gateway stands, as workers have it, e.g. us-east-1a; null: nobody knows"
    )
    trusted_proxies: Networks = Field(
        default=(), description="addresses of proxies whose x-forwarded-for says where a request comes from"
    )
    user_header: HeaderName = Field(
        default="x-end-user", description="request header that names the end user, before user in the body"
    )


class WorkerSettings(Group):
    url: WorkerUrl = Field(description="address of the model server, e.g. http://10.0.0.5:8000")
    id: Token = Field(
        default_factory=lambda fields: fields["url"], description="name in headers, logs and metrics; default: its url"
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


class LimitSettings(Group):
    requests_per_minute: Count | None = Field(default=None, description="requests; null: no limit, as below")
    input_tokens_per_minute: Count | None = Field(default=None, description="prompt tokens, cached ones weigh less")
    output_tokens_per_minute: Count | None = Field(default=None, description="generated tokens")
    tokens_per_minute: Count | None = Field(default=None, description="both together")
    concurrent: Count | None = Field(default=None, description="requests at once")
    tokens_per_day: Count | None = Field(default=None, description="both together, by the calendar")
    usd_per_day: Positive | None = Field(default=None, description="US dollars, by the calendar")
    usd_per_month: Positive | None = Field(default=None, description="US dollars, by the calendar")


class KeySettings(Group):
    id: EntityName = Field(description="public name, which stands in logs and in the ledger")
    secret: Secret | None = Field(default=None, description="what callers send")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the secret")
    secret_sha256: Sha256 | None = Field(default=None, description="SHA-256 of the secret, hexadecimal")
    project: EntityName | None = Field(default=None, description="tag by which its usage is told apart")
    models: Names | None = Field(default=None, description="narrows what the team may use")
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None, description="that it may ask for; null: as the team"
    )
    fallback: bool | None = Field(default=None, description="whether fallbacks may answer; null: as the team")
    networks: Networks | None = Field(default=None, description="addresses that it may be used from, e.g. 10.0.0.0/8")
    priority: PriorityName | None = Field(default=None, description="high, normal or low; null: as the team")
    weight: Positive | None = Field(default=None, description="share of a saturated fleet; null: as the team")
    limits: LimitSettings = Field(default=LimitSettings(), description="beside those of the team")
    model_limits: dict[str, LimitSettings] = Field(default={}, description="limits of single models, by their names")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        given = [each for each in (self.secret, self.secret_sha256) if each is not None]
        if len(given) == 1 or (not given and self.secret_env is not None):  # `load` says that the variable is not set
            return self
        text = "is needed: secret, secret_env or secret_sha256, and only one of them"
        return unless_contradictory(self, [Contradiction(("secret",), text)])


class TeamSettings(Group):
    name: EntityName = Field(description="its name, in the ledger and in metrics")
    weight: Positive = Field(default=1, description="share of a saturated fleet, beside those of other teams")
    priority: PriorityName = Field(default="normal", description="high, normal or low: a higher one is served first")
    models: Names | None = Field(
        default=None, description="models that it may use: names, aliases, or prefixes with *; null: all, []: none"
    )
    strategies: Annotated[tuple[StrategyName, ...], Field(strict=False)] | None = Field(
        default=None, description="that its requests may ask for; null: all"
    )
    fallback: bool = Field(default=True, description="whether fallbacks, Bedrock among them, may answer its requests")
    ttft_s: Positive | None = Field(
        default=None, description="wanted time to the first token: later requests go to a fallback, see spill.when_late"
    )
    blocked: bool = Field(default=False, description="all of its keys are refused")
    isolated_cache: bool = Field(default=False, description="shares cached prefixes with no other team")
    tracing: DestinationSettings | None = Field(
        default=None, description="who is told of its traces, beside the operator: a Langfuse project; null: nobody"
    )
    projects: Names = Field(default=(), description="tags by which its usage may be told apart")
    guardrails: GuardrailNames = Field(
        default=(), description="names of guardrails that look at its requests and their answers"
    )
    limits: LimitSettings = Field(default=LimitSettings(), description="of all its keys together")
    model_limits: dict[str, LimitSettings] = Field(default={}, description="limits of single models, by their names")
    keys: Annotated[tuple[KeySettings, ...], Field(strict=False)] = Field(
        default=(), description="its keys; more can be made while running"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        return unless_contradictory(self, repeated([(("keys", i, "id"), key.id) for i, key in enumerate(self.keys)]))


class AdminKeySettings(Group):
    role: Literal["viewer", "operator", "owner"] = Field(
        description="viewer reads; operator changes limits, blocks and drains; owner also makes teams and keys"
    )
    id: EntityName = Field(
        default_factory=lambda fields: fields["role"], description="who it is, in the audit log; default: its role"
    )
    secret: Secret | None = Field(default=None, description="what callers send")
    secret_env: VariableName | None = Field(default=None, description="environment variable that holds the secret")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.secret is None and self.secret_env is None:
            text = "is needed: secret or secret_env"
            return unless_contradictory(self, [Contradiction(("secret",), text)])
        return self


class AdminSettings(Group):
    port: int | None = Field(
        default=None, ge=0, le=65535, description="port of its own for /admin/v1; null: that of the gateway"
    )
    host: Token | None = Field(default=None, description="address of that port; null: server.host")
    keys: Annotated[tuple[AdminKeySettings, ...], Field(strict=False)] = Field(
        default=(), description="who may use /admin/v1; none: nobody"
    )


class StoreSettings(Group):
    url: StoreUrl | None = Field(
        default=None, description="sqlite:///FILE, or redis://HOST:PORT/0, or rediss://; null: only what teams says"
    )
    pepper: Secret | None = Field(
        default=None, description="key under which digests of secrets are made; null: one that the store keeps"
    )
    replicas: Count = Field(default=1, description="gateways that share the store: each one's share when it is away")
    away_requests: WhenAway = Field(default="share", description="limits of requests when it is away: share or closed")
    away_tokens: WhenAway = Field(default="share", description="limits of tokens per minute when it is away")
    away_concurrent: WhenAway = Field(default="share", description="limits of requests at once when it is away")
    away_budget: WhenAway = Field(default="closed", description="limits per day and month when it is away")
    lease_s: Positive = Field(
        default=30, description="a gateway that says nothing for so long is dead; what it had reserved is settled"
    )
    retention_days: Count = Field(default=400, description="how long lines of the ledger are kept")


class QuotaSettings(Group):
    burst: Burst = Field(default=0.1, description="share of a minute's limit that may be used at once")
    cached_weight: Share = Field(
        default=0.1, description="what a cached prompt token weighs in limits of tokens, beside one that is computed"
    )
    time_zone: TimeZone = Field(default="UTC", description="whose days and months budgets have, e.g. Europe/Berlin")
    default_output_tokens: Count = Field(
        default=512, description="reserved for an answer until a model's lengths are learnt, where a request sets none"
    )


class QueueSettings(Group):
    most_waiting_per_team: Count = Field(default=1024, description="requests of one team that are held; more get 503")
    low_share: Share = Field(default=0.1, description="of a saturated fleet that lower priorities get at least")
    starvation_s: Positive = Field(default=30, description="held for so long, a request counts as one class higher")


class ReplicasSettings(Group):
    share: bool = Field(
        default=True, description="gateways with the same store in Redis tell each other what they give to workers"
    )
    group: EntityName = Field(
        default="default", description="those of one group do; others that have the same store are none of theirs"
    )
    tie_s: NotNegative = Field(
        default=0.02, description="workers that cost so much more are as good: all replicas choose the same of them"
    )
    heartbeat_s: Positive = Field(default=1, description="between two signs of life")
    dead_after_s: Positive = Field(
        default=3, description="a replica unheard for so long is dead: what it had on workers counts no more"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.dead_after_s >= 2 * self.heartbeat_s:
            return self
        text = "is shorter than two times replicas.heartbeat_s: one late sign of life would be a death"
        return unless_contradictory(self, [Contradiction(("dead_after_s",), text)])


class RoutingSettings(Group):
    lease_s: Positive = Field(
        default=2100,
        description="a booking on a worker that is never released ends after this; not below timeouts.total_s",
    )
    initial_prefill_tokens_per_s: Positive = Field(
        default=2000, description="assumed prefill speed of a worker until its own is learnt; too low is the safe side"
    )
    depth_s: Positive = Field(
        default=0.05, description="kv_aware: a worker with no more backlog than this is sent the next request"
    )
    max_wait_s: Positive = Field(
        default=120, description="kv_aware: a session's first request held for so long comes before all others"
    )
    most_waiting: Count = Field(default=4096, description="kv_aware: with so many held, more are sent at once")
    other_zone_s: NotNegative = Field(
        default=0.002, description="what a worker of another zone than server.zone costs more, by cost-aware strategies"
    )
    seed: int | None = Field(default=None, description="makes random ties repeatable; null: by chance")


class IndexSettings(Group):
    max_bytes: Count = Field(default=256 * 2**20, description="memory for the prefixes of all models together")
    block_bytes: Count = Field(default=64, description="bytes of text in one block")
    default_worker_blocks: Count = Field(
        default=8192, description="cache of a worker in engine blocks when its metrics do not tell"
    )
    default_block_size: Count = Field(
        default=16, description="tokens in one engine block when the worker's metrics do not tell"
    )


class KvEventsSettings(Group):
    bind: ZmqAddress | None = Field(
        default=None, description="where engines that dial out are awaited, e.g. tcp://*:5557; null: none does"
    )
    check: bool = Field(
        default=True, description="try each worker out with tiny completions when its engine begins to tell"
    )
    prediction_s: Positive = Field(
        default=5, description="what was sent to a worker counts as cached for so long before its engine tells"
    )
    max_bytes: Count = Field(default=2**30, description="memory for the blocks that engines tell of")
    cpu_price: Share = Field(
        default=0.25, description="time to load a block from host memory, as a share of the time to compute it"
    )
    disk_price: Share = Field(default=0.75, description="the same for disks")
    shared_price: Share = Field(default=0.5, description="the same for stores that all workers share")


class TimeoutSettings(Group):
    connect_s: Positive = Field(default=2, description="opening a connection to a worker")
    first_byte_s: Positive = Field(default=300, description="from the request sent to the first byte of the answer")
    idle_s: Positive = Field(default=120, description="between two pieces of an answer")
    total_s: Positive = Field(default=1800, description="the whole exchange with a worker")


class HealthSettings(Group):
    interval_s: Positive = Field(default=2, description="time between two checks of a worker")
    timeout_s: Positive = Field(default=1, description="a check without an answer for this long has failed")
    failures_to_down: Count = Field(default=2, description="failed checks in a row that take a worker out")
    successes_to_up: Count = Field(default=1, description="good checks in a row that bring it back")
    path: UrlPath = Field(default="/health", description="path that is asked")
    metrics_interval_s: Positive = Field(default=5, description="time between two readings of a worker's metrics")


class BreakerSettings(Group):
    failures: Count = Field(default=5, description="failures within window_s that open a worker's breaker")
    window_s: Positive = Field(default=30, description="span in which failures are counted")
    open_s: Positive = Field(default=10, description="how long an open breaker keeps requests away; longer each time")
    error_share: Share = Field(
        default=0.5, description="of a worker's requests within window_s: as many failures open its breaker as well"
    )
    least_requests: Count = Field(default=10, description="requests within window_s before error_share counts")


class RetrySettings(Group):
    max_attempts: Count | None = Field(default=None, description="workers tried per request; null: every one once")
    budget_share: Share = Field(
        default=0.5, description="of the requests of the last 10 s: as many may be sent a second time"
    )
    budget_floor_per_s: NotNegative = Field(default=10, description="and as many a second in any case")
    first_byte_factor: Positive = Field(
        default=3, description="a stream that has not begun after this many times the predicted time is tried elsewhere"
    )
    first_byte_margin_s: NotNegative = Field(default=5, description="and so much longer")
    wait_s: NotNegative = Field(
        default=10, description="how long a request waits for a worker when none is there, before a fallback or 503"
    )
    stall_gaps: Positive = Field(
        default=20, description="a stream that pauses for so many times its usual gap goes on elsewhere (continuation)"
    )
    stall_s: Positive = Field(default=1, description="but not before it has paused for so long")


class DrainSettings(Group):
    hand_over_after_s: NotNegative | None = Field(
        default=30,
        description="streams of a draining worker that last longer go on at another (continuation); null: never",
    )


class LoggingSettings(Group):
    requests: bool = Field(default=True, description="one line of JSON per request, without prompt and key")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least level that is written"
    )
    format: Literal["text", "json"] = Field(
        default="text", description="of what the program says on stderr; lines of requests are JSON in any case"
    )


class Settings(Group):
    """Everything that can be set. Built once, by `load` or in a test, and handed on."""

    server: ServerSettings = Field(default=ServerSettings(), description="the listening side")
    models: Annotated[tuple[ModelSettings, ...], Field(strict=False)] = Field(
        description="the models and their workers"
    )
    routes: Annotated[tuple[RouteSettings, ...], Field(strict=False)] = Field(
        default=(), description="names that stand for several models: canaries, A/B tests, rules by request"
    )
    adapters: AdaptersSettings = Field(default=AdaptersSettings(), description="LoRA adapters that workers load")
    routing: RoutingSettings = Field(default=RoutingSettings(), description="choice of a worker")
    index: IndexSettings = Field(default=IndexSettings(), description="memory of who holds which prefix")
    kv_events: KvEventsSettings = Field(
        default=KvEventsSettings(), description="what engines tell of their caches, for kv_aware"
    )
    timeouts: TimeoutSettings = Field(default=TimeoutSettings(), description="patience with workers")
    health: HealthSettings = Field(default=HealthSettings(), description="asking workers how they are")
    breaker: BreakerSettings = Field(default=BreakerSettings(), description="leaving a failing worker alone")
    retry: RetrySettings = Field(default=RetrySettings(), description="trying the next worker")
    kubernetes: KubernetesSettings = Field(
        default=KubernetesSettings(), description="asking Kubernetes for services and pods"
    )
    drain: DrainSettings = Field(default=DrainSettings(), description="workers that are to be empty")
    logging: LoggingSettings = Field(default=LoggingSettings(), description="what is written")
    tracing: TracingSettings = Field(default=TracingSettings(), description="who is told of requests, by OpenTelemetry")
    bedrock: BedrockSettings = Field(default=BedrockSettings(), description="Amazon Bedrock, shared by all models")
    teams: Annotated[tuple[TeamSettings, ...], Field(strict=False)] = Field(
        default=(), description="who may ask; none, and no store: everybody on this machine, and nobody else"
    )
    guardrails: Annotated[tuple[GuardrailSettings, ...], Field(strict=False)] = Field(
        default=(), description="what looks at requests and answers, for models and teams that name it"
    )
    admin: AdminSettings = Field(default=AdminSettings(), description="the routes under /admin/v1")
    store: StoreSettings = Field(default=StoreSettings(), description="where keys, quotas and the ledger are kept")
    replicas: ReplicasSettings = Field(
        default=ReplicasSettings(), description="several gateways before the same workers, with a store in Redis"
    )
    quota: QuotaSettings = Field(default=QuotaSettings(), description="how limits are counted")
    queue: QueueSettings = Field(default=QueueSettings(), description="teams before a saturated fleet")

    @model_validator(mode="before")
    @classmethod
    def _an_empty_group_is_its_defaults(cls, data: Any) -> Any:
        # `logging:` with every line under it commented out reads as null.
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        names: list[tuple[Place, str]] = []
        for i, model in enumerate(self.models):
            names.append((("models", i, "name"), model.name))
            names.extend((("models", i, "aliases", j), alias) for j, alias in enumerate(model.aliases))
        for i, route in enumerate(self.routes):
            names.append((("routes", i, "name"), route.name))
            names.extend((("routes", i, "aliases", j), alias) for j, alias in enumerate(route.aliases))
        workers: list[tuple[Place, str, str]] = [
            (("models", i, "workers", j), worker.id, worker.url)
            for i, model in enumerate(self.models)
            for j, worker in enumerate(model.workers)
        ]
        found = repeated(names) + ambiguous(workers)
        found += unknown_models(self.routes, [model.name for model in self.models])
        found += repeated([(("teams", i, "name"), team.name) for i, team in enumerate(self.teams)])
        found += repeated(
            [
                (("teams", i, "keys", j, "id"), key.id)
                for i, team in enumerate(self.teams)
                for j, key in enumerate(team.keys)
            ]
        )
        found += repeated([(("admin", "keys", i, "id"), key.id) for i, key in enumerate(self.admin.keys)])
        found += unknown_guardrails(self.guardrails, self.models, self.teams, region=self.bedrock.region)
        if self.bedrock.region is None:
            found.extend(
                Contradiction((*place, "region"), "is needed: set it, or bedrock.region, or AWS_REGION")
                for place, bedrock in self._bedrocks()
                if bedrock.region is None
            )
        if self.kv_events.bind is None:
            text = "is needed: kv_events.bind is not set"
            found.extend(
                Contradiction((*place, "kv_events", "endpoint"), text)
                for place, events in self._events()
                if events.endpoint is None
            )
        if self.routing.lease_s < self.timeouts.total_s:
            text = "is shorter than timeouts.total_s: a long answer would lose its place on its worker"
            found.append(Contradiction(("routing", "lease_s"), text))
        if not self.models:
            found.append(Contradiction(("models",), "is empty; at least one model is needed"))
        return unless_contradictory(self, found)

    def _events(self) -> Iterator[tuple[Place, WorkerEventsSettings]]:
        for i, model in enumerate(self.models):
            for j, worker in enumerate(model.workers):
                place = ("models", i, "workers", j)
                if worker.kv_events is not None:
                    yield place, worker.kv_events
                for k, instance in enumerate(worker.dynamo.instances if worker.dynamo is not None else ()):
                    if instance.kv_events is not None:
                        yield (*place, "dynamo", "instances", k), instance.kv_events

    def _bedrocks(self) -> Iterator[tuple[Place, ModelBedrockSettings]]:
        for i, model in enumerate(self.models):
            for j, fallback in enumerate(model.fallbacks):
                if fallback.bedrock is not None:
                    yield ("models", i, "fallbacks", j, "bedrock"), fallback.bedrock
            if model.bedrock is not None:
                yield ("models", i, "bedrock"), model.bedrock
