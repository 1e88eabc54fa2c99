"""Settings of the gateway, read from one YAML file and from `WARMGATE_*` environment variables.

    names             names of settings: places in the file, and environment variables
    rules             rules for single values, and for values that must fit together
    disaggregation    prefill and decode workers
    pulls             pulls of cached blocks from other workers
    discovery         workers that are discovered in Kubernetes or by DNS
    engine_events     KV event stream of an engine
    dynamo            workers behind a Dynamo frontend
    adapters          LoRA adapters
    rollout           routes: names that stand for several models
    fallbacks         fallbacks, which answer if no worker can
    guardrails        checks of requests and answers
    tracing           traces
    server            gateway process: addresses, limits, logs
    models            models and their workers
    routing           choice of a worker
    failures          workers that are slow, fail or are drained
    teams             teams, their keys and limits
    response_cache    cache of complete answers
    identity          tokens of identity providers
    named_rules       names of limit templates and model groups
    alerts            alerts about budgets and unusual cost
    admin             admin API
    quota             counting of limits, and fair-share scheduling
    stores            the store, and state that gateways share
    advanced          tuning
    schema            all settings, and rules between groups
    fields            types of settings
    table             settings table of the documentation
    faults            error messages
    yaml_file         YAML files
    removed           removed settings
    renamed           renamed and moved settings
    variables         environment variables
    secret_variables  secrets in environment variables
    source            file and environment variables, merged and checked
    workers_file      file with the workers of one model
    change            changes that can be applied without a restart

Each module imports only modules above it.
"""

from gateway.settings.adapters import AdapterSettings, AdaptersSettings
from gateway.settings.admin import AdminKeySettings, AdminSettings
from gateway.settings.alerts import AlertsSettings, EmailSettings
from gateway.settings.change import Change, applicable
from gateway.settings.disaggregation import DisaggregationSettings
from gateway.settings.discovery import (
    DnsSettings,
    InferencePoolSettings,
    KubernetesSettings,
    PodsSettings,
    ServiceSettings,
)
from gateway.settings.dynamo import DynamoSettings, InstanceSettings
from gateway.settings.engine_events import WorkerEventsSettings
from gateway.settings.failures import BreakerSettings, DrainSettings, HealthSettings, RetrySettings, TimeoutSettings
from gateway.settings.fallbacks import (
    BedrockSettings,
    FallbackSettings,
    ModelBedrockSettings,
    OpenAIEndpointSettings,
    PriceSettings,
    SpillSettings,
)
from gateway.settings.faults import SettingsError
from gateway.settings.identity import (
    ConsoleLoginSettings,
    IdentitySettings,
    IssuerSettings,
    ScimSettings,
    TeamRuleSettings,
    TeamTemplateSettings,
)
from gateway.settings.models import ModelSettings, TokenizerSettings, WorkerSettings
from gateway.settings.pulls import PullSettings
from gateway.settings.quota import QueueSettings, QuotaSettings
from gateway.settings.rollout import RouteRuleSettings, RouteSettings, VariantSettings
from gateway.settings.routing import IndexSettings, KvEventsSettings, RoutingSettings
from gateway.settings.schema import Settings
from gateway.settings.server import LoggingSettings, ServerSettings
from gateway.settings.source import build, environment, load, masked
from gateway.settings.stores import ReplicasSettings, StoreSettings
from gateway.settings.table import SettingRow, describe
from gateway.settings.teams import HardLimitSettings, KeySettings, LimitSettings, TeamSettings
from gateway.settings.tracing import DestinationSettings, TracingSettings
from gateway.settings.workers_file import workers_in

__all__ = [
    "AdapterSettings",
    "AdaptersSettings",
    "AdminKeySettings",
    "AdminSettings",
    "AlertsSettings",
    "BedrockSettings",
    "BreakerSettings",
    "Change",
    "ConsoleLoginSettings",
    "DestinationSettings",
    "DisaggregationSettings",
    "DnsSettings",
    "DrainSettings",
    "DynamoSettings",
    "EmailSettings",
    "FallbackSettings",
    "HardLimitSettings",
    "HealthSettings",
    "IdentitySettings",
    "IndexSettings",
    "InferencePoolSettings",
    "InstanceSettings",
    "IssuerSettings",
    "KeySettings",
    "KubernetesSettings",
    "KvEventsSettings",
    "LimitSettings",
    "LoggingSettings",
    "ModelBedrockSettings",
    "ModelSettings",
    "OpenAIEndpointSettings",
    "PodsSettings",
    "PriceSettings",
    "PullSettings",
    "QueueSettings",
    "QuotaSettings",
    "ReplicasSettings",
    "RetrySettings",
    "RouteRuleSettings",
    "RouteSettings",
    "RoutingSettings",
    "ScimSettings",
    "ServerSettings",
    "ServiceSettings",
    "SettingRow",
    "Settings",
    "SettingsError",
    "SpillSettings",
    "StoreSettings",
    "TeamRuleSettings",
    "TeamSettings",
    "TeamTemplateSettings",
    "TimeoutSettings",
    "TokenizerSettings",
    "TracingSettings",
    "VariantSettings",
    "WorkerEventsSettings",
    "WorkerSettings",
    "applicable",
    "build",
    "describe",
    "environment",
    "load",
    "masked",
    "workers_in",
]
