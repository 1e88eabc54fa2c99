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
        "worker-unavailable": Kind("error", "Start the worker, or correct its address, API key or network policy."),
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
            "compare the hashes of engines. Warmgate compares tokens instead.",
        ),
        "clock-skew": Kind("warning", "Synchronize the clocks of all machines with NTP."),
        "buffered-streams": Kind(
            "error",
            "Switch off response buffering in the proxy before the worker (nginx: proxy_buffering off), or let the "
            "gateway reach the worker directly.",
        ),
        "early-eviction": Kind(
            "warning",
            "Give the engine's KV cache more memory (--gpu-memory-utilization, host memory), or add workers.",
        ),
        # ---- KV events
        "no-kv-events": Kind(
            "warning",
            "Start the engine with KV events (vLLM and SGLang: --kv-events-config), and set "
            "models[].workers[].kv_events if the engine does not report the address.",
        ),
        "kv-events-unreachable": Kind(
            "error", "Open the port of the KV events between gateway and engine, and check the endpoint."
        ),
        "no-replay-endpoint": Kind(
            "warning",
            "Set replay_endpoint in the engine's --kv-events-config, and models[].workers[].kv_events.replay_endpoint "
            "if kv_events.endpoint is set.",
        ),
        "lost-events": Kind(
            "warning",
            "Set a replay endpoint and raise buffer_steps in the engine's --kv-events-config. Check the network.",
        ),
        "incomplete-events": Kind(
            "info",
            "Wait until enough requests have confirmed the predictions from the KV events. Raise buffer_steps in "
            "the engine's --kv-events-config if the finding returns after each restart of the gateway.",
        ),
        "undecodable-events": Kind(
            "error", "Use a supported engine version, and check that nothing else publishes on the same port."
        ),
        # ---- predictions
        "wrong-tokenizer": Kind(
            "error",
            "Set models[].tokenizer.path to a folder with the engine's tokenizer and chat template, in the same "
            "revision, or set models[].tokenizer.source to engine.",
        ),
        "tokenizer-not-loaded": Kind(
            "error",
            "Correct models[].tokenizer.path, or install warmgate[tokenizer]. The gateway's log contains the reason.",
        ),
        "wrong-upstream-model": Kind("error", "Set models[].upstream_model to a model name that the worker serves."),
        "wrong-salt": Kind("error", "Use an engine version that includes cache_salt in its hashes and KV events."),
        "untrue-hits": Kind(
            "error",
            "Upgrade the engine, or report the defect to its project. Budgets and metrics use the "
            "cached tokens that the engine reports.",
        ),
        "inaccurate-predictions": Kind(
            "error",
            "Check whether other clients use the worker, and which model, template and adapter the engine serves. "
            "Compare the prediction for one prompt using `/warmgate/explain`.",
        ),
        "inaccurate-ttft": Kind(
            "warning",
            "Check whether other clients use the worker, whether it shares its GPU, and whether its cache is too small "
            "for the requests that it runs.",
        ),
        # ---- traffic
        "round-robin-configured": Kind("warning", "Set models[].strategy to prefix_aware or kv_aware."),
        "prompts-under-one-block": Kind(
            "warning",
            "Put text that prompts share at the beginning. Prompts shorter than a block gain nothing from prefix "
            "caching.",
        ),
        "uneven-traffic": Kind(
            "info",
            "Compare the prompts: requests that share one prefix go to few workers while these are fast enough. With "
            "the strategy session, check whether most requests name the same session.",
        ),
        "model-not-ready": Kind("error", "Start workers of the model, or configure a fallback."),
        # ---- fallbacks
        "expired-canary": Kind(
            "warning",
            "Set bedrock.canary_every_s to at most 30 days, and keep the gateway running: AWS closes legacy models to "
            "accounts that have not used them for 30 days.",
        ),
        "failed-canary": Kind(
            "error", "Check the fallback's credentials, region and model access, and read the gateway's log."
        ),
        "legacy-fallback": Kind("warning", "Configure another model before AWS retires this model."),
        # ---- teams and the store
        "key-without-limits": Kind("warning", "Set limits for the key or its team with `warmgate team update`."),
        "open-to-network": Kind("warning", "Create teams and keys, or set server.open_mode to loopback."),
        "no-store": Kind("warning", "Set store.url to a SQLite file (one gateway) or to Redis (several gateways)."),
        "store-unavailable": Kind(
            "error", "Start the store, correct store.url, or run `warmgate store check --config FILE`."
        ),
        "ledger-entries-lost": Kind("error", "Keep the store reachable, so that few ledger entries wait."),
    }
)
"""All kinds of findings, by code."""
