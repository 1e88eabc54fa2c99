"""Findings of a diagnosis, and the table of all kinds of findings."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""Severities of findings, highest first. Only the first two make the command fail."""

PAGE = "docs/operate/troubleshoot-by-symptom.md"
"""Documentation page with a section for each kind of finding. The code of the kind is the anchor."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Severity and remedy of all findings with the same code."""

    severity: Severity
    """Severity of most findings of this kind."""
    remedy: str
    """Instruction that helps the operator to fix the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Finding of a diagnosis. A field is None if no single model, worker, team or fallback is concerned."""

    code: str
    text: str
    model: str | None = None
    worker: str | None = None
    team: str | None = None
    fallback: str | None = None
    other_severity: Severity | None = None
    """Severity of the finding, or None for the severity of its kind."""

    @property
    def severity(self) -> Severity:
        return self.other_severity or KINDS[self.code].severity

    @property
    def remedy(self) -> str:
        """Instruction that helps the operator to fix the problem."""
        return KINDS[self.code].remedy

    @property
    def page(self) -> str:
        """Link to the section of the documentation about this kind of finding."""
        return f"{PAGE}#{self.code}"

    @property
    def concerns(self) -> str:
        """Model, worker, team or fallback that the finding concerns."""
        named = (("model", self.model), ("worker", self.worker), ("team", self.team), ("fallback", self.fallback))
        return ", ".join(f"{kind} {name}" for kind, name in named if name is not None) or "gateway"

    @property
    def is_failure(self) -> bool:
        return self.severity != "info"


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        # ---- workers and their engines
        "worker-unavailable": Kind("error", "Start the worker, or correct its address, its key or the network policy."),
        "prefix-caching-off": Kind(
            "error",
            "Start vLLM without --no-enable-prefix-caching and SGLang without --disable-radix-cache.",
        ),
        "wrong-block-size": Kind(
            "error", "Start all workers of the model with the same engine, version and --block-size (--page-size)."
        ),
        "wrong-capacity": Kind(
            "error",
            "Compare num_gpu_blocks in the engine's log with its metrics. If a proxy or a second engine answers "
            "/metrics, let the gateway reach the engine itself.",
        ),
        "hash-seeds-differ": Kind(
            "warning",
            "Set PYTHONHASHSEED to the same value for all engines of the model. Shared KV stores and other routers "
            "compare the hashes of engines; Warmgate compares tokens.",
        ),
        "clock-skew": Kind("warning", "Synchronize the clocks of all machines with NTP."),
        "buffered-streams": Kind(
            "error",
            "Switch off response buffering in the proxy before the worker (nginx: proxy_buffering off), or let the "
            "gateway reach the worker directly.",
        ),
        "early-eviction": Kind(
            "warning",
            "Give the KV cache more memory (--gpu-memory-utilization, an offloading tier), or add workers.",
        ),
        # ---- KV events
        "no-kv-events": Kind(
            "warning",
            "Start the engine with KV events (vLLM and SGLang: --kv-events-config), and set "
            "models[].workers[].kv_events if it does not say where it publishes.",
        ),
        "kv-events-unreachable": Kind(
            "error", "Open the port of the KV events between gateway and engine, and check the endpoint."
        ),
        "no-replay-endpoint": Kind(
            "warning",
            "Set replay_endpoint in the engine's --kv-events-config, and models[].workers[].kv_events.replay_endpoint "
            "if the endpoint is set there.",
        ),
        "lost-events": Kind(
            "warning",
            "Offer a replay endpoint and raise buffer_steps in the engine's --kv-events-config; check the network.",
        ),
        "incomplete-events": Kind(
            "info",
            "Nothing at first: the stream is trusted once enough requests prove its predictions. Raise buffer_steps in "
            "the engine's --kv-events-config if it happens after each restart of the gateway.",
        ),
        "undecodable-events": Kind(
            "error", "Use an engine version of the compatibility table, and check that only it publishes there."
        ),
        # ---- predictions
        "wrong-tokenizer": Kind(
            "error",
            "Let models[].tokenizer.path name the tokenizer and chat template that the engine loads, of the same "
            "revision; or set models[].tokenizer.source to engine.",
        ),
        "tokenizer-not-loaded": Kind(
            "error",
            "Correct models[].tokenizer.path, and install warmgate[tokenizer]. The log has the reason.",
        ),
        "wrong-upstream-model": Kind("error", "Let models[].upstream_model be a name that the worker serves."),
        "wrong-salt": Kind("error", "Use an engine version that includes cache_salt in its hashes and KV events."),
        "untrue-hits": Kind(
            "error",
            "Upgrade the engine, or report the number to its project. Budgets and metrics use the number that the "
            "engine reports.",
        ),
        "inaccurate-predictions": Kind(
            "error",
            "Look for other senders to the worker, a restarted engine, and another model, template or adapter; compare "
            "one prompt with `/warmgate/explain`.",
        ),
        # ---- traffic
        "round-robin-configured": Kind("warning", "Set models[].strategy to prefix_aware or kv_aware."),
        "prompts-under-one-block": Kind(
            "warning",
            "Put what prompts have in common at their beginning. Prompts that stay this short gain nothing from prefix "
            "caching.",
        ),
        "uneven-traffic": Kind(
            "info",
            "Compare the prompts: one prefix that all requests share goes to few workers as long as they keep up. With "
            "the strategy session, look for a session that most requests name.",
        ),
        "model-not-ready": Kind("error", "Start its workers, or configure a fallback."),
        # ---- fallbacks
        "expired-canary": Kind(
            "warning",
            "Set bedrock.canary_every_s to at most 30 days, and keep the gateway running: AWS closes legacy models to "
            "accounts that were idle for 30 days.",
        ),
        "failed-canary": Kind(
            "error", "Check credentials, region and model access of the fallback; the gateway's log has the reason."
        ),
        "legacy-fallback": Kind("warning", "Choose a successor before AWS withdraws the model."),
        # ---- teams and the store
        "key-without-limits": Kind("warning", "Set limits for the key or its team: `warmgate team update --limit`."),
        "open-to-network": Kind("warning", "Create teams and keys, or set server.open_mode to loopback."),
        "no-store": Kind("warning", "Set store.url: a SQLite file for one gateway, Redis for several."),
        "store-unavailable": Kind(
            "error", "Start the store, correct store.url, or run `warmgate store check --config F`."
        ),
        "ledger-entries-lost": Kind("error", "Keep the store reachable: entries are dropped when too many wait."),
    }
)
"""All kinds of findings, by code."""
