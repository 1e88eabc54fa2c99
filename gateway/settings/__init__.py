"""Settings of an operator: one YAML file, `WARMGATE_*` variables over it, and sentences about faults.

    names         what a setting is called
    rules         what a value, and what values together, must be
    disaggregation  the group for workers that share requests: prefill and decode
    discovery     the groups for workers that are found in Kubernetes or by DNS
    engine_events the group for the KV event stream of an engine
    dynamo        the groups for the workers behind a Dynamo frontend
    adapters      the groups for LoRA adapters
    rollout       the groups for names that stand for several models
    fallbacks     the groups for what answers when workers cannot
    guardrails    the groups for what looks at requests and answers
    tracing       the groups for traces
    server        the groups for the process: where it listens, what it writes
    models        the groups for models and their workers
    routing       the groups for the choice of a worker
    failures      the groups for workers that are slow, fail or leave
    teams         the groups for teams, their keys and limits
    admin         the groups for the admin routes
    quota         the groups for how limits are counted and turns are given
    stores        the groups for what is kept, and what gateways share
    advanced      the group for tuning
    schema        the settings as a whole: every group, and what must hold between them
    fields        the types of the settings
    table         the settings as a table
    faults        the sentences
    yaml_file     reading YAML
    removed       settings that were removed
    renamed       settings that have another name or place now
    variables     reading variables
    source        file and environment, merged and checked
    workers_file  the workers of one model in a file of their own
    change        what of changed settings can be applied at once

Each imports those above it only.
"""

from gateway.settings.adapters import AdapterSettings, AdaptersSettings
from gateway.settings.admin import AdminKeySettings, AdminSettings
from gateway.settings.change import Change, applicable
from gateway.settings.disaggregation import DisaggregationSettings
from gateway.settings.discovery import DnsSettings, KubernetesSettings, PodsSettings, ServiceSettings
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
from gateway.settings.models import ModelSettings, TokenizerSettings, WorkerSettings
from gateway.settings.quota import QueueSettings, QuotaSettings
from gateway.settings.rollout import RouteRuleSettings, RouteSettings, VariantSettings
from gateway.settings.routing import IndexSettings, KvEventsSettings, RoutingSettings
from gateway.settings.schema import Settings
from gateway.settings.server import LoggingSettings, ServerSettings
from gateway.settings.source import build, environment, load, masked
from gateway.settings.stores import ReplicasSettings, StoreSettings
from gateway.settings.table import SettingRow, describe
from gateway.settings.teams import KeySettings, LimitSettings, TeamSettings
from gateway.settings.tracing import DestinationSettings, TracingSettings
from gateway.settings.workers_file import workers_in

__all__ = [
    "AdapterSettings",
    "AdaptersSettings",
    "AdminKeySettings",
    "AdminSettings",
    "BedrockSettings",
    "BreakerSettings",
    "Change",
    "DestinationSettings",
    "DisaggregationSettings",
    "DnsSettings",
    "DrainSettings",
    "DynamoSettings",
    "FallbackSettings",
    "HealthSettings",
    "IndexSettings",
    "InstanceSettings",
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
    "QueueSettings",
    "QuotaSettings",
    "ReplicasSettings",
    "RetrySettings",
    "RouteRuleSettings",
    "RouteSettings",
    "RoutingSettings",
    "ServerSettings",
    "ServiceSettings",
    "SettingRow",
    "Settings",
    "SettingsError",
    "SpillSettings",
    "StoreSettings",
    "TeamSettings",
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
