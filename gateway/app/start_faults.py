"""Configuration errors that concern more than one value.

`check` reports them, and so does `serve` at the start and on a reload.

The checks use only local information: files, installed packages, and conflicts between ports or secrets.
"""

import importlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from gateway.app.fallbacks import extras_of
from gateway.app.guardrails import check_guardrail
from gateway.app.mapping.tenancy import declared_in
from gateway.app.mapping.workers import check_source, sources_of
from gateway.settings import KeySettings, Settings, SettingsError, TeamSettings
from gateway.settings.rules import SQLITE
from gateway.storage.redis_link import redis_link
from gateway.tenancy.teams.secret import Digester
from gateway.workers.worker_spec import WorkersError

EVERYWHERE = frozenset({"0.0.0.0", "::", "*", ""})  # noqa: S104  # compared with, not listened on
MEMORY = f"{SQLITE}:memory:"


def refuse_faulty(settings: Settings) -> None:
    """Raise an error if *settings* contain errors that concern more than one value.

    Raises:
        SettingsError: with a sentence for every error found.
    """
    found = [
        *_equal_secrets(settings),
        *_equal_ports(settings),
        *_of_store(settings),
        *_unknown_models(settings),
        *_missing_extras(settings),
        *_of_guardrails(settings),
        *_of_sources(settings),
        *_of_tokenizers(settings),
    ]
    if found:
        raise SettingsError(found)


def _equal_secrets(settings: Settings) -> Iterator[str]:
    digester = Digester(b"check")  # digests of declared secrets only, so any pepper will do
    try:
        keys = declared_in(settings, digester).keys
    except SettingsError as fault:
        yield from fault.sentences
        return
    owners = {key.digest: f"the key {key.id!r} of the team {key.team!r}" for key in keys.values()}
    given = [
        (f"the admin key {key.id!r}", key.secret.get_secret_value())
        for key in settings.admin.keys
        if key.secret is not None
    ]
    for name, secret in given:
        other = owners.setdefault(digester.digest(secret), name)
        if other != name:
            yield f"admin.keys: {other} and {name} have the same secret. Give each key a different secret."


def _equal_ports(settings: Settings) -> Iterator[str]:
    server, admin = settings.server, settings.admin
    ports: list[tuple[str, str, int | None]] = [
        ("server.port", server.host, server.port),
        ("server.probes_port", server.host, server.probes_port),
        ("admin.port", admin.host or server.host, admin.port),
        ("kv_events.bind", *_place_of(settings.kv_events.bind)),
    ]
    for i, (name, host, port) in enumerate(ports):
        for other, elsewhere, taken in ports[:i]:
            if port and port == taken and (host == elsewhere or EVERYWHERE & {host, elsewhere}):
                yield f"{name} and {other} both use port {port}. Set them to different ports."


def _place_of(address: str | None) -> tuple[str, int | None]:
    if address is None:
        return "", None
    try:
        url = urlsplit(address)
        place = url.hostname or "", url.port
    except ValueError:
        return "", None
    return place


def _of_store(settings: Settings) -> Iterator[str]:
    url = settings.store.url
    if url is None or url == MEMORY:
        return
    if not url.startswith(SQLITE):
        try:
            redis_link(url)
        except ValueError as fault:
            yield f"{fault}."
        return
    path = Path(url.removeprefix(SQLITE))
    if not path.parent.is_dir():
        yield f"store.url names a file in {path.parent}, which is not a folder."
    elif path.is_dir():
        yield f"store.url names {path}, which is a folder; it must be a file."


def _unknown_models(settings: Settings) -> Iterator[str]:
    known = {model.name for model in settings.models}

    def of(scope: TeamSettings | KeySettings, place: str) -> Iterator[str]:
        for name in sorted(scope.model_limits.keys() - known):
            yield f"{place}.model_limits names {name!r}, which is not the name of a model (aliases are not allowed)."

    for i, team in enumerate(settings.teams):
        yield from of(team, f"teams[{i}]")
        for j, key in enumerate(team.keys):
            yield from of(key, f"teams[{i}].keys[{j}]")


def _missing_extras(settings: Settings) -> Iterator[str]:
    wanted: dict[str, list[str]] = defaultdict(list)
    for i, model in enumerate(settings.models):
        for extra in extras_of(model):
            wanted[extra].append(f"models[{i}], which has a fallback on {extra.capitalize()},")
    wanted["bedrock"] += [f"guardrails[{i}]" for i, each in enumerate(settings.guardrails) if each.kind == "bedrock"]
    if settings.tracing.endpoint is not None:
        wanted["otel"].append("tracing.endpoint")
    wanted["otel"] += [
        f"teams[{i}].tracing.endpoint" for i, team in enumerate(settings.teams) if team.tracing is not None
    ]
    if settings.console.enabled:
        wanted["console"].append("console.enabled")
    if settings.files.s3 is not None:
        wanted["s3"].append("files.s3")
    for extra, places in wanted.items():
        if places and not all(map(_is_installed, _MODULES[extra])):
            yield from (f"{place} needs the extra warmgate[{extra}], which is not installed." for place in places)


_MODULES = {
    "bedrock": ("botocore.session", "botocore.eventstream"),
    "console": ("jinja2",),
    "s3": ("botocore.session",),
    "otel": ("opentelemetry.proto.trace.v1.trace_pb2",),
}


def _is_installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _of_guardrails(settings: Settings) -> Iterator[str]:
    for i, each in enumerate(settings.guardrails):
        try:
            check_guardrail(each)
        except (ValueError, ImportError) as fault:
            yield f"guardrails[{i}]: {str(fault).rstrip('.')}."


def _of_sources(settings: Settings) -> Iterator[str]:
    for source in (source for model in settings.models for source in sources_of(model)):
        try:
            check_source(source)
        except WorkersError as fault:
            yield from fault.sentences


def _of_tokenizers(settings: Settings) -> Iterator[str]:
    for i, model in enumerate(settings.models):
        path = model.tokenizer.path
        if model.tokenizer.source == "local" and path is not None and not Path(path).is_dir():
            yield f"models[{i}].tokenizer.path names {path}, which is not a folder."
