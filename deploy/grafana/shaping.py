"""Dashboard of routes, LoRA adapters, separate prefill and decode workers, guardrails, and traces."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query

ROUTED = f"warmgate_route_requests_total{{{OF_MODEL}}}"
WEIGHED = f'warmgate_route_requests_total{{{OF_MODEL},rule="weight"}}'

ROUTES = Row(
    "Routes",
    [
        Panel(
            title="Requests by route and model",
            description="Requests for each route, by the model that the gateway chose.",
            queries=[Query(f"sum by (route, model) (rate({ROUTED}{RATE}))", "{{route}}: {{model}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Requests by route and rule",
            description="Requests for each route, by the rule that chose the model. The value `weight` means"
            " that no rule matched.",
            queries=[Query(f"sum by (route, rule) (rate({ROUTED}{RATE}))", "{{route}}: {{rule}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Shares by weight",
            description="Share of each model in the requests that weights decided, and the configured share.",
            queries=[
                Query(
                    f"sum by (route, model) (rate({WEIGHED}{RATE}))"
                    f" / on (route) group_left () sum by (route) (rate({WEIGHED}{RATE}))",
                    "{{route}}: {{model}}",
                ),
                Query(
                    f"max by (route, model) (warmgate_route_share_ratio{{{OF_MODEL}}})",
                    "{{route}}: {{model}} by weight",
                ),
            ],
            unit="percentunit",
            most=1,
        ),
    ],
)
ADAPTERS = Row(
    "LoRA adapters",
    [
        Panel(
            title="Loaded adapters",
            description="1 if the worker has loaded the LoRA adapter, 0 if it has not.",
            queries=[
                Query(f"max by (model, worker) (warmgate_adapter_loaded{{{OF_MODEL}}})", "{{model}} {{worker}}"),
            ],
            most=1,
        ),
        Panel(
            title="Adapter loads",
            description="Loads of LoRA adapters by result: loaded, failed, unloaded (to make room) or no_room"
            " (all loaded adapters are in use).",
            queries=[
                Query(
                    f"sum by (model, result) (rate(warmgate_adapter_loads_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}} {{result}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            title="Adapter load time",
            description="Estimated time to load each LoRA adapter. Routing adds this time to the cost of workers"
            " without the adapter.",
            queries=[Query(f"max by (model) (warmgate_adapter_load_seconds{{{OF_MODEL}}})", "{{model}}")],
            unit="s",
        ),
    ],
)
HALVES = Row(
    "Separate prefill and decode workers",
    [
        Panel(
            title="Prompts by place of prefill",
            description="Prompts by place of prefill: remote (a prefill worker), here (the worker that generates"
            " the answer, because few tokens are uncached) or failed (the same worker, because"
            " prefill workers failed).",
            queries=[
                Query(
                    f"sum by (model, location) (rate(warmgate_prefills_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}} {{location}}",
                )
            ],
            unit="reqps",
            is_stacked=True,
            width=12,
        ),
        Panel(
            title="Share of remote prefills",
            description="Share of prompts that prefill workers computed, for models with separate prefill and"
            " decode workers.",
            queries=[
                Query(
                    f'sum by (model) (rate(warmgate_prefills_total{{{OF_MODEL},location="remote"}}{RATE}))'
                    f" / sum by (model) (rate(warmgate_prefills_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}}",
                )
            ],
            unit="percentunit",
            most=1,
            width=12,
        ),
    ],
)
GUARDRAILS = Row(
    "Guardrails and traces",
    [
        Panel(
            title="Guardrail actions",
            description="Requests and answers that a guardrail redacted, blocked or logged.",
            queries=[
                Query(
                    "sum by (guardrail, direction, action)"
                    f" (rate(warmgate_guardrail_actions_total{{{GATEWAYS}}}{RATE}))",
                    "{{guardrail}} {{direction}} {{action}}",
                )
            ],
            unit="reqps",
        ),
        Panel(
            title="Guardrail failures",
            description="Requests and answers that a guardrail could not check. The setting on_unavailable"
            " decides whether their text passes or the request fails.",
            queries=[
                Query(
                    f"sum by (guardrail) (rate(warmgate_guardrail_failures_total{{{GATEWAYS}}}{RATE}))",
                    "{{guardrail}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            title="Traces",
            description="Traces by destination and outcome: sent, dropped or failed.",
            queries=[
                Query(
                    f"sum by (destination, outcome) (rate(warmgate_traces_total{{{GATEWAYS}}}{RATE}))",
                    "{{destination}} {{outcome}}",
                )
            ],
            unit="cps",
        ),
    ],
)

SHAPING = Dashboard(
    name="shaping",
    title="Shaping",
    description="Routes, LoRA adapters, separate prefill and decode workers, guardrails, and traces.",
    choices=[NAMESPACE, JOB, MODEL],
    rows=[ROUTES, ADAPTERS, HALVES, GUARDRAILS],
)
