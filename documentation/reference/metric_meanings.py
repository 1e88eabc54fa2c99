"""Meanings of all metrics, by section of docs/reference/metrics.md."""

from collections.abc import Mapping
from types import MappingProxyType

MEANINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Requests": {
            "warmgate_requests_total": (
                "completion requests by response status, or 499 if the caller disconnected before the response"
            ),
            "warmgate_errors_total": "requests that ended in an error, by the name of the error",
            "warmgate_retries_total": "attempts beyond a request's first",
            "warmgate_streams_continued_total": "streams that were continued on another worker",
            "warmgate_tokens_total": (
                "tokens as the engine counted them: `prompt`, `cached`, `completion`; `predicted`: predicted cached "
                "tokens, of prompts for which the engine reported `cached`"
            ),
            "warmgate_time_to_first_token_seconds": "time to the first useful byte, of answered streams",
            "warmgate_time_per_output_token_seconds": "time per output token after the first, of answered streams",
            "warmgate_request_duration_seconds": "whole time of answered requests",
            "warmgate_requests_in_flight": "requests being served",
        },
        "Routing and prefix cache": {
            "warmgate_decisions_total": (
                "routing decisions by reason. `hit`: no other worker had cached more of the prompt; `spread`: "
                "another worker had, but cost more; `cold`: no worker had cached any of it; `none`: no worker was "
                "available"
            ),
            "warmgate_requests_by_session_total": (
                "requests by how their [session](../how-to/sessions.md) was recognized. `named`: by a name; `prompt`: "
                "by a prompt that continues an earlier prompt; `none`: not recognized, as the first request of a "
                "session without a name"
            ),
            "warmgate_prefills_total": (
                "requests of models with `disaggregation` by where the prompt was computed: `remote`, on a prefill "
                "worker; `here`, on the worker that answered; `failed`: all prefill workers that were tried failed"
            ),
            "warmgate_route_requests_total": (
                "requests for a [route](../how-to/canary-routes.md) by the model that answered, and by the rule that "
                "chose it, or `weight`, `response` or `tool_loop`"
            ),
            "warmgate_route_share_ratio": "target share of the model among the requests that weights decide",
            "warmgate_predicted_cached_tokens": (
                "prompt tokens that the chosen worker was predicted to have cached, as in `x-warmgate-hit-tokens`"
            ),
            "warmgate_index_bytes": "memory of the prefix index, estimated",
            "warmgate_index_max_bytes": "memory limit of the prefix index, `index.max_bytes`",
            "warmgate_policy_configured": "1 for the configured strategy",
            "warmgate_policy_effective": (
                "1 for the policy in effect: `kv_aware` ranks as `prefix_aware` while no engine publishes KV events, "
                "and the policy is `kv_aware_in_part` while some engines publish none"
            ),
            "warmgate_worker_load_tokens_per_second": (
                "learned rate at which the worker loads cached tokens to its GPU, on the slow side of what was "
                "learned: from host memory (`cpu`), a disk (`disk`), a shared store (`shared`) or another worker "
                "(`peer`); a tier has no value until loads from it have been measured"
            ),
            "warmgate_pulls_total": (
                "requests of models with `pull` whose worker should pull cached blocks from another worker, by what "
                "arrived: `complete`, `partial`, `missed`, or `unknown` if the engine did not report its cached tokens"
            ),
            "warmgate_pulled_tokens_total": (
                "prompt tokens of models with `pull` that workers pulled from other workers instead of computing them"
            ),
            "warmgate_exact_prompts_total": (
                "prompts whose tokens were known (`exact`), or the reason why not, e.g. `slow`, `busy`, "
                "`unavailable`, `disagrees`"
            ),
        },
        "Queue": {
            "warmgate_requests_waiting": (
                "requests that `kv_aware` or the fair queue holds until a worker is about to be free"
            ),
            "warmgate_team_requests_waiting": "held requests of each team with held requests",
            "warmgate_requests_without_worker": "requests that wait because no worker is available",
            "warmgate_oldest_wait_seconds": "longest time that a held request has waited so far",
        },
        "Workers": {
            "warmgate_worker_up": "1 if its health check succeeds",
            "warmgate_worker_asleep": "1 if the engine reports that it sleeps",
            "warmgate_worker_engine_running": (
                "requests that run in the engine, by its last report; absent if the report is too old"
            ),
            "warmgate_worker_engine_waiting": (
                "requests that wait in the engine, by its last report; absent if the report is too old"
            ),
            "warmgate_worker_engine_kv_usage_ratio": (
                "share of the engine's KV cache in use, by its last report; absent if the report is too old"
            ),
            "warmgate_worker_reading_age_seconds": "age of the engine's last report",
            "warmgate_worker_role": "1 for its role: `both`, `prefill` or `decode`",
            "warmgate_worker_draining": "1 while an operator or the settings drain the worker",
            "warmgate_worker_breaker_open": (
                "1 from the opening of the worker's circuit breaker until a request succeeds"
            ),
            "warmgate_worker_in_flight": "requests on the worker",
            "warmgate_worker_backlog_seconds": "predicted prefill time ahead of a new request",
            "warmgate_worker_prefill_tokens_per_second": "learned prefill rate, without requests that generate",
            "warmgate_worker_ttft_error_ratio": (
                "mean error of recent predictions of the time to first token, as a share of the measured times"
            ),
            "warmgate_worker_ttft_bias_ratio": "mean signed error of these predictions, above 0 if they are too long",
            "warmgate_worker_index_blocks": "index blocks that the worker is predicted to hold",
            "warmgate_worker_hit_accuracy_ratio": (
                "agreement of predicted hits with the `cached_tokens` that the engine reports, 0 to 1"
            ),
            "warmgate_worker_hit_alarm": "1 while predicted hits are mostly wrong; then its KV events are not used",
            "warmgate_worker_connections": "open connections, busy and idle",
        },
        "KV events": {
            "warmgate_worker_kv_events_live": "1 while its engine publishes KV events and none is missing",
            "warmgate_kv_stream_state": (
                "1 for the state of its engine's KV events: `live`; `catching_up`; `stale`: some were never "
                "received; `untrusted`: none can be received or understood"
            ),
            "warmgate_kv_stream_doubt": (
                "1 for why it cannot be `live`: `not_connected`; `undecodable`; `partial`: published since before "
                "the oldest batch that can be replayed; `unreplayed`: nothing can be replayed; `lost`: batches are "
                "missing; `inaccurate`: predictions from its events were wrong"
            ),
            "warmgate_kv_stream_lag_seconds": (
                "age of the last batch of events when it was processed, by the clocks of both machines"
            ),
            "warmgate_kv_stream_sequence": "sequence number of the last batch of events",
            "warmgate_kv_events_total": "events of the engine: `stored`, `removed`, `cleared`",
            "warmgate_kv_blocks_total": "blocks in its events: `stored`, `removed`",
            "warmgate_kv_batches_total": (
                "batches by outcome: `taken`, `duplicate`, `late`, `lost`, `turned_away` (asked for again), "
                "`undecodable`, `malformed`, `other_topic`"
            ),
            "warmgate_kv_stream_transitions_total": (
                "`connection`, `gap`, `replay`; `restart`: the engine restarted; `rebuild`: started again in the "
                "same process"
            ),
            "warmgate_kv_unused_total": (
                "events that were of no use (`other_group`, `unknown_type`, `unknown_place`, `nameless_adapter`), or "
                "not understood (`bigram`, `malformed`)"
            ),
            "warmgate_confirmed_bytes": "memory for the engines' events, including predictions",
            "warmgate_confirmed_max_bytes": "the limit for the engines' events, `kv_events.max_bytes`",
            "warmgate_index_anomalies_total": (
                "anomalies in the engines' events, in blocks: `repeated`, `announced_again`, `contradicted`, "
                "`unknown_removals`, `parked` (their parent was not known), `attached`, `unparked`, `given_up`, "
                "`crowded_out`, `forgotten`; `refused` counts events"
            ),
        },
        "Discovery of workers": {
            "warmgate_discovery_updates_total": "sets of workers that were found: `applied`, `unchanged`, `refused`",
            "warmgate_discovery_age_seconds": "time since `service`, `pods` or `dns` last answered",
            "warmgate_discovery_synced": "0 until the source has answered once",
            "warmgate_discovery_workers": "workers that the source listed last, including draining workers",
            "warmgate_discovery_failures_total": "queries that the source did not answer",
            "warmgate_discovery_last_update_successful": "0 if the last update of workers was refused",
        },
        "Kept answers": {
            "warmgate_response_cache_requests_total": (
                "requests that may use [kept answers](../how-to/response-cache.md), by result: `hit`, `shared` (the "
                "answer of an identical request in flight), `miss`, `uncacheable`"
            ),
            "warmgate_response_cache_evictions_total": "kept answers that were removed to make room for others",
            "warmgate_response_cache_answers": "kept answers",
            "warmgate_response_cache_bytes": "memory in bytes of all kept answers",
        },
        "Batches": {
            "warmgate_batch_lines_in_flight": "lines of [batches](../how-to/batch.md) that the gateway has in flight",
            "warmgate_batch_lines_total": "finished lines of batches by result: `completed`, `failed`",
            "warmgate_batch_interruptions_total": (
                "interruptions of lines whose prompts a worker computed, because another request needed the worker"
            ),
            "warmgate_batch_discarded_runs_total": (
                "runs of lines whose answers were not used, and which are not in the ledger: `retried`, `stopped` (the "
                "gateway stopped), `late` (the line had a result already, or its batch had ended)"
            ),
            "warmgate_batch_discarded_cost_usd_total": "cost of these runs in US dollars",
            "warmgate_batches_ended_total": (
                "batches that the gateway ended, by status: `completed`, `failed`, `expired`, `cancelled`"
            ),
            "warmgate_batch_webhook_deliveries_total": (
                "attempts of the gateway to deliver an event to a [webhook](../how-to/batch.md#get-webhooks) about "
                "batches, by outcome: `delivered`, `failed` (will be repeated), `dropped`"
            ),
        },
        "LoRA adapters": {
            "warmgate_adapter_loaded": (
                "1 if the worker has loaded the model's [LoRA adapter](../how-to/lora.md), 0 if not; absent if unknown"
            ),
            "warmgate_adapter_load_seconds": "expected time to load the model's LoRA adapter on a worker",
            "warmgate_adapter_loads_total": (
                "adapter loads by result: `loaded`, `failed`, `no_room` (all adapters of the worker were in use), "
                "`unloaded` (to make room for another adapter)"
            ),
        },
        "Fallbacks": {
            "warmgate_fallbacks_total": "requests that a fallback answered",
            "warmgate_fallback_requests_total": (
                "requests sent to the fallback: `answered`, `failed`, `left` (the caller disconnected), `unused` "
                "(the fallback cannot serve the request)"
            ),
            "warmgate_fallback_skipped_total": (
                "times that the fallback was skipped: `not_served` (the endpoint), `too_long`, `breaker`, `rate`, "
                "`share`, `budget`"
            ),
            "warmgate_fallback_spend_usd": "cost of fallbacks within the last hour",
            "warmgate_fallback_held_usd": "maximum cost of requests in flight",
            "warmgate_fallback_rate_ratio": (
                "share of the fallback's rate limits that may be used now: 0.1 after a pause, then growing to 1"
            ),
            "warmgate_fallback_breaker_open": "1 while the fallback is excluded because of failures",
            "warmgate_fallback_canary_ok": (
                "1 if the fallback answered its last test request; if two fallbacks have the same id, the worse result"
            ),
            "warmgate_fallback_canary_age_seconds": "time since the fallback's last test request",
            "warmgate_fallback_legacy": "1 if AWS announces that it will withdraw the model",
        },
        "Teams and budgets": {
            "warmgate_team_requests_total": "requests with a known key, by status",
            "warmgate_team_refused_total": (
                "requests that a limit turned away, by its scope and name, e.g. `key/tokens_per_minute`"
            ),
            "warmgate_team_tokens_total": "tokens as the engine counted them: `prompt`, `cached`, `completion`",
            "warmgate_team_cost_usd_total": "US dollars, by backend: `workers`, `fallback`",
            "warmgate_team_saved_usd_total": "US dollars saved by cached tokens",
            "warmgate_team_budget_limit_usd": (
                "US dollars that a team may use in a `day` or `month` for all models together, if limited"
            ),
            "warmgate_team_budget_used_usd": (
                "US dollars of the team's budget that are used or reserved, updated every ten seconds"
            ),
            "warmgate_key_budget_limit_usd": (
                "US dollars that a key may use in a `day` or `month`, for the first 1,000 keys with a budget"
            ),
            "warmgate_key_budget_used_usd": "US dollars of the key's budget that are used or reserved",
            "warmgate_team_budget_limit_tokens": "tokens that a team may use in a `day` (`tokens_per_day`)",
            "warmgate_team_budget_used_tokens": "tokens of the team's budget that are used or reserved",
            "warmgate_key_budget_limit_tokens": (
                "tokens that a key may use in a `day`, for the first 1,000 keys with a budget"
            ),
            "warmgate_key_budget_used_tokens": "tokens of the key's budget that are used or reserved",
            "warmgate_team_soft_budget_used_ratio": (
                "used share of a [soft budget](../concepts/quotas-and-fairness.md#limits), above 1 if exceeded; for "
                "keys or models of a team, the highest share. `limit` as in `x-warmgate-budget-warning`"
            ),
        },
        "Alerts about budgets": {
            "warmgate_alerts_total": (
                "[alerts](../how-to/budget-alerts.md) by outcome: `recorded`, or `crowded` if too many end users of a "
                "team have reached budgets"
            ),
            "warmgate_alert_deliveries_total": (
                "attempts of the gateway to deliver an alert, by outcome: `delivered`, `failed` (will be repeated), "
                "`dropped`"
            ),
        },
        "Store and ledger": {
            "warmgate_quota_degraded": "1 while limits are enforced without the store",
            "warmgate_key_store_unavailable": (
                "1 while changes of keys and teams cannot be received; known keys stay valid"
            ),
            "warmgate_store_unfit": (
                "1 while the store answers and must not be used: its data is lost, or its pepper or schema differs"
            ),
            "warmgate_ledger_waiting": "entries not yet written to the ledger",
            "warmgate_ledger_dropped_total": (
                "ledger entries that were lost because they could not be written and too many were waiting"
            ),
        },
        "Replicas": {
            "warmgate_replicas": (
                "live gateways, including this gateway; the replica metrics are absent if replicas share nothing"
            ),
            "warmgate_replica_bookings": "requests on workers that other gateways have reported",
            "warmgate_replica_messages_total": (
                "messages `sent`, `heard` from other replicas, and `unreadable` because of another version"
            ),
            "warmgate_replica_dropped_total": "entries of this gateway that reached no subscriber",
            "warmgate_replica_gaps_total": "times that entries of other replicas were missing until the next snapshot",
            "warmgate_replica_lag_seconds": "time that the last heartbeat took through Redis and back to this gateway",
        },
        "Guardrails": {
            "warmgate_guardrail_actions_total": (
                "requests that the guardrail redacted, blocked or logged, by direction (`request`, `response`)"
            ),
            "warmgate_guardrail_failures_total": "checks that the guardrail's service did not answer",
            "warmgate_guardrail_missing_total": (
                "requests refused because the team names a guardrail that is not configured"
            ),
        },
        "Traces": {
            "warmgate_traces_total": (
                "[traces](../how-to/tracing.md) for the `operator` and for each `team:NAME`: `sent`, `dropped` (too "
                "many waited), `failed`"
            ),
        },
        "Configuration": {
            "warmgate_config_reloads_total": "`applied`; `unchanged`: there was no difference; `refused`",
            "warmgate_config_last_reload_successful": "0 if the last configuration was refused",
            "warmgate_config_last_applied_timestamp_seconds": "Unix time at which the configuration last took effect",
            "warmgate_config_needs_restart": "1 for each setting whose change needs a restart",
        },
        "Process": {
            "warmgate_event_loop_lag_seconds": (
                "delay of the event loop, measured five times a second: it delays every request"
            ),
            "warmgate_build_info": "1, with the versions of the gateway and of Python",
            "process_cpu_seconds_total": "processor time of the gateway's process in seconds, user and system",
            "process_resident_memory_bytes": "resident memory (RSS) of the gateway's process",
            "process_virtual_memory_bytes": "address space of the gateway's process",
            "process_start_time_seconds": "start of the gateway's process, in Unix time",
            "process_open_fds": "open file descriptors of the gateway's process, including connections",
            "process_max_fds": "maximum number of file descriptors that the gateway's process may open",
        },
    }
)
