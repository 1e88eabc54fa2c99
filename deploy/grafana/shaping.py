"""The dashboard of traffic shaping: routes over models, LoRA adapters, divided prompts, guardrails, traces."""

from deploy.grafana.choices import GATEWAYS, JOB, MODEL, NAMESPACE, OF_MODEL
from deploy.grafana.dashboard import Dashboard, Row
from deploy.grafana.panel import RATE, Panel, Query

ROUTED = f"warmgate_route_requests_total{{{OF_MODEL}}}"
WEIGHED = f'warmgate_route_requests_total{{{OF_MODEL},rule="weight"}}'

ROUTES = Row(
    "Routes",
    [
        Panel(
            title="Requests by model",
            description="Of each name that stands for several models, by the one that they got.",
            queries=[Query(f"sum by (route, model) (rate({ROUTED}{RATE}))", "{{route}}: {{model}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Why that model",
            description="The rule that was true of the request, or the weights.",
            queries=[Query(f"sum by (route, rule) (rate({ROUTED}{RATE}))", "{{route}}: {{rule}}")],
            unit="reqps",
            is_stacked=True,
        ),
        Panel(
            title="Shares by weight",
            description="Of requests that weights decide: what each model had of them, and what it is to have.",
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
            title="Where they are",
            description="1: the worker has the adapter that the model is.",
            queries=[
                Query(f"max by (model, worker) (warmgate_adapter_loaded{{{OF_MODEL}}})", "{{model}} {{worker}}"),
            ],
            most=1,
        ),
        Panel(
            title="Loads",
            description="By what came of them. unloaded: to make room for another; no_room: all others are in use.",
            queries=[
                Query(
                    f"sum by (model, result) (rate(warmgate_adapter_loads_total{{{OF_MODEL}}}{RATE}))",
                    "{{model}} {{result}}",
                )
            ],
            unit="cps",
        ),
        Panel(
            title="Time of a load",
            description="As it is believed: what a worker without the adapter costs more.",
            queries=[Query(f"max by (model) (warmgate_adapter_load_seconds{{{OF_MODEL}}})", "{{model}}")],
            unit="s",
        ),
    ],
)
HALVES = Row(
    "Prompts and answers on different workers",
    [
        Panel(
            title="Where prompts are computed",
            description="remote: on a prefill worker; here: where they are answered, as little of them was lacking;"
            " failed: there, as prefill workers failed.",
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
            title="Share of prompts computed elsewhere",
            description="Of requests for models whose prompts may be computed by other workers.",
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
            title="Guardrails that acted",
            description="Requests and answers that one redacted, blocked or logged.",
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
            title="Guardrails that did not answer",
            description="Questions to services and to Bedrock; the text passes, or the request fails, as settings say.",
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
            description="Traces by destination and outcome.",
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
    description="What is done to traffic on its way: routes, LoRA adapters, divided prompts, guardrails, traces.",
    choices=[NAMESPACE, JOB, MODEL],
    rows=[ROUTES, ADAPTERS, HALVES, GUARDRAILS],
)
