"""Conversion of settings to the options of the server, the admin API and telemetry."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gateway.api.admin_access import AdminKey
from gateway.api.admin_v1.parts import ConfiguredModel
from gateway.app.alerts import AlertRules, EmailRules, SlackRules, WebhookRules
from gateway.app.batch_webhooks import BatchWebhookRules
from gateway.app.console import ConsoleRules
from gateway.app.processes.rules import ProcessRules
from gateway.batch.batches import BatchRules
from gateway.batch.bucket import Bucket
from gateway.batch.bucket_client import BucketClient, BucketRules
from gateway.batch.contents import Contents
from gateway.batch.files import FileRules
from gateway.batch.folder import Folder
from gateway.picker.rules import PickerRules
from gateway.proxy.bodies.memory_guard import memory_limit
from gateway.server.on_uvicorn import ServingOptions
from gateway.server.shared_state import ConnectionLimits
from gateway.settings import (
    AdminSettings,
    AlertsSettings,
    DestinationSettings,
    EmailSettings,
    ModelSettings,
    ServerSettings,
    Settings,
    SettingsError,
    TracingSettings,
)
from gateway.settings.batches import BatchesSettings
from gateway.settings.rules import SQLITE
from gateway.telemetry.alert_delivery.email import MailServer
from gateway.telemetry.trace_export.tracing import Receiver, TraceRules
from gateway.tenancy.alerts.spend_watch import SpendRule


def limits_of(server: ServerSettings) -> ConnectionLimits:
    """Return the configured limits for client connections."""
    return ConnectionLimits(
        max_connections=server.max_connections,
        max_header_bytes=server.max_header_bytes,
        keep_alive_s=server.keep_alive_s,
        body_idle_s=server.body_idle_s,
        write_timeout_s=server.write_timeout_s,
        min_body_bytes_per_s=server.min_body_bytes_per_s,
        max_per_address=server.max_connections_per_address or -(-9 * server.max_connections // 10),
        unlimited=tuple(str(network) for network in server.trusted_proxies),
    )


def serving_options(settings: Settings) -> ServingOptions:
    """Return the options for running the HTTP server."""
    server = settings.server
    return ServingOptions(
        limits_of(server),
        address=f"{server.host} port {server.port}",
        shutdown_grace_s=server.shutdown_grace_s,
        log_level=settings.logging.level,
    )


def admin_keys(settings: AdminSettings) -> tuple[AdminKey, ...]:
    return tuple(
        AdminKey(key.id, key.role, key.secret.get_secret_value(), key.team)
        for key in settings.keys
        if key.secret is not None
    )


def console_rules(settings: Settings) -> ConsoleRules | None:
    """Return the rules of the console, or None if it is disabled."""
    console, server = settings.console, settings.server
    if not console.enabled:
        return None
    logins = [each.console for each in settings.identity.issuers if each.console is not None]
    public = [urlsplit(each.public_url).hostname or "" for each in logins]
    return ConsoleRules(
        allowed_hosts=frozenset(map(str.lower, (*console.allowed_hosts, *public, settings.admin.host or server.host))),
        session_idle_s=console.session_idle_s,
        session_max_s=console.session_max_s,
        trusted_proxies=server.trusted_proxies,
    )


def file_rules(settings: Settings) -> FileRules | None:
    """Return the rules of files, or None if the gateway serves no files."""
    files = settings.files
    if files.folder is None and files.s3 is None:
        return None
    return FileRules(
        max_file_bytes=files.max_file_bytes,
        max_lines=files.max_lines,
        max_team_bytes=files.max_team_bytes,
        max_team_files=files.max_team_files,
        keep_s=files.keep_s,
    )


def file_contents(settings: Settings) -> Contents:
    """Return the storage of contents, if the gateway serves files."""
    files = settings.files
    if files.s3 is None:
        assert files.folder is not None, "the gateway serves files"
        return Folder(Path(files.folder))
    s3 = files.s3
    rules = BucketRules(
        bucket=s3.bucket,
        prefix=s3.prefix,
        endpoint_url=s3.endpoint_url,
        region=s3.region,
        addressing=s3.addressing,
    )
    return Bucket(BucketClient(rules), scratch=None if s3.scratch_folder is None else Path(s3.scratch_folder))


def batch_rules(settings: Settings) -> BatchRules:
    """Return the rules of batches, which apply if the gateway serves files."""
    batches = settings.batches
    return BatchRules(
        max_team_batches=batches.max_team_batches,
        keep_s=settings.files.keep_s,
        max_in_flight_per_worker=batches.max_in_flight_per_worker,
        max_cache_share=batches.max_cache_share,
        raise_before_s=batches.raise_before_s,
        lease_s=batches.lease_s,
        max_line_bytes=settings.server.max_body_bytes,
        max_lines=settings.files.max_lines,
        max_enqueued_tokens=batches.max_enqueued_tokens,
        model_enqueued_tokens=batches.model_enqueued_tokens,
        interrupts=batches.interrupt_prompts,
        model_interrupts=batches.model_interrupt_prompts,
    )


def configured_models(settings: Settings) -> tuple[ConfiguredModel, ...]:
    return tuple(map(_configured, settings.models))


def _configured(model: ModelSettings) -> ConfiguredModel:
    price = model.price
    return ConfiguredModel(
        name=model.name,
        aliases=model.aliases,
        upstream_model=model.upstream_model,
        adapter_of=model.adapter_base,
        strategy=model.strategy,
        input_usd=price.input_usd,
        cached_input_usd=price.input_usd if price.cached_input_usd is None else price.cached_input_usd,
        output_usd=price.output_usd,
        gpu_hour_usd=price.gpu_hour_usd,
        max_output_tokens=model.max_output_tokens,
        bedrock=next((each.bedrock.model_id for each in reversed(model.fallbacks) if each.bedrock is not None), None),
    )


def trace_rules(tracing: TracingSettings) -> TraceRules:
    """Return the trace options that all destinations have in common."""
    return TraceRules(
        ratio=tracing.ratio,
        service_name=tracing.service_name,
        resource=tracing.resource,
        content_bytes=tracing.content_bytes,
        max_waiting=tracing.max_waiting,
        timeout_s=tracing.timeout_s,
    )


def receiver_of(destination: DestinationSettings) -> Receiver | None:
    """Return the receiver of traces, or None if no endpoint is configured."""
    if destination.endpoint is None:
        return None
    return Receiver(destination.endpoint, destination.sent_headers, destination.content, destination.langfuse)


def team_receivers(settings: Settings) -> Mapping[str, Receiver]:
    """Return the trace receiver of each team, by team name."""
    found = {team.name: receiver_of(team.tracing) for team in settings.teams if team.tracing is not None}
    return {name: receiver for name, receiver in found.items() if receiver is not None}


def process_rules(settings: Settings, processes: int) -> ProcessRules:
    """Return what the supervisor of several processes has to know.

    Raises:
        SettingsError: if the settings do not work with several processes.
    """
    server, url = settings.server, settings.store.url
    faults = []
    if settings.admin.keys and settings.admin.port is None:
        faults.append("admin.port is not set, and with --processes the admin API needs a port of its own.")
    if url == f"{SQLITE}:memory:":
        faults.append("store.url is a SQLite database in memory, which only one process can use. Remove store.url.")
    if settings.kv_events.bind is not None:
        faults.append("kv_events.bind is set, but with --processes an engine would reach only one of the processes.")
    if faults:
        raise SettingsError(faults)
    memory = server.max_memory_bytes or memory_limit()
    shared = {
        "WARMGATE_STORE__REPLICAS": settings.store.replicas * processes,
        "WARMGATE_SERVER__MAX_CONNECTIONS": -(-server.max_connections // processes),
        "WARMGATE_SERVER__MAX_BODIES_BYTES": max(server.max_body_bytes, server.max_bodies_bytes // processes),
        "WARMGATE_SERVER__MAX_MEMORY_BYTES": None if memory is None else memory // processes,
        "WARMGATE_SERVER__MAX_CONCURRENT_REQUESTS": None
        if server.max_concurrent_requests is None
        else -(-server.max_concurrent_requests // processes),
    }
    return ProcessRules(
        processes=processes,
        host=server.host,
        port=server.port,
        admin=None if settings.admin.port is None else (settings.admin.host or server.host, settings.admin.port),
        probes=None if server.probes_port is None else (server.host, server.probes_port),
        variables={name: str(value) for name, value in shared.items() if value is not None},
        shapes=settings.request_shapes.directory if settings.request_shapes.enabled else None,
        store_url=url,
        store_file=Path(url.removeprefix(SQLITE)) if url is not None and url.startswith(SQLITE) else None,
        stop_s=server.stop_delay_s + server.shutdown_grace_s,
        is_log_json=settings.logging.format == "json",
    )


def picker_rules(settings: Settings) -> PickerRules:
    """Return the settings of the endpoint picker and of its gRPC server."""
    picker, server = settings.picker, settings.server
    return PickerRules(
        listen=picker.listen,
        certificate=None if picker.certificate_file is None else Path(picker.certificate_file),
        key=None if picker.key_file is None else Path(picker.key_file),
        grace_s=server.shutdown_grace_s,
        max_body_bytes=server.max_body_bytes,
        max_buffered_bytes=picker.max_buffered_bytes,
        max_fallbacks=picker.max_fallbacks,
        endpoint_scores=picker.endpoint_scores,
        session_header_decides=picker.session_header_decides,
        is_conformance_test=picker.conformance,
    )


def alert_rules(alerts: AlertsSettings) -> AlertRules:
    """Return the options for alerts about budgets and unusual spend."""
    anomaly = alerts.anomaly
    return AlertRules(
        thresholds=alerts.thresholds,
        spend=None
        if anomaly.factor is None
        else SpendRule(anomaly.factor, anomaly.min_usd, anomaly.min_days, anomaly.history_days),
        check_s=alerts.check_s,
        webhooks=[
            WebhookRules(each.name, each.url, each.secret.get_secret_value())
            for each in alerts.webhooks
            if each.secret is not None
        ],
        slack=[
            SlackRules(each.name, each.secret.get_secret_value()) for each in alerts.slack if each.secret is not None
        ],
        email=[EmailRules(each.name, _mail_server(each), each.sender, each.recipients) for each in alerts.email],
    )


def batch_webhook_rules(batches: BatchesSettings) -> list[BatchWebhookRules]:
    """Return the receivers of events about batches."""
    return [
        BatchWebhookRules(
            *(each.name, each.url, each.secret.get_secret_value()),
            teams=None if each.teams is None else frozenset(each.teams),
        )
        for each in batches.webhooks
        if each.secret is not None
    ]


def _mail_server(email: EmailSettings) -> MailServer:
    return MailServer(
        *(email.host, email.port, email.encryption),
        ca_file=None if email.ca_file is None else Path(email.ca_file),
        username=email.username,
        password="" if email.secret is None else email.secret.get_secret_value(),
    )
