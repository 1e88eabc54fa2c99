"""Configurations of Envoy with an endpoint picker: the same shape as deploy/examples/endpoint-picker/envoy.yaml."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Json = dict[str, Any]
BodyMode = Literal["FULL_DUPLEX_STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "NONE"]

TYPES = "type.googleapis.com/envoy"
BUFFER_BYTES = 32 * 2**20
"""Maximum size of a body that Envoy keeps in memory, as it does in the mode BUFFERED."""
MAX_IN_FLIGHT = 100_000
DESTINATION = "x-gateway-destination-endpoint"
SUBSET_HEADERS = ("x-test-subset", "x-test-subset-list")
"""Headers by which a test gives the picker a subset of endpoints, as one string with commas and as a list."""
SUBSET_LUA = """
function envoy_on_request(handle)
  local headers = handle:headers()
  local metadata = handle:streamInfo():dynamicMetadata()
  local name = "x-gateway-destination-endpoint-subset"
  local text, list = headers:get("x-test-subset"), headers:get("x-test-subset-list")
  if text ~= nil then
    metadata:set("envoy.lb.subset_hint", name, text)
  elseif list ~= nil then
    local endpoints = {}
    for endpoint in string.gmatch(list, "[^,]+") do endpoints[#endpoints + 1] = endpoint end
    metadata:set("envoy.lb.subset_hint", name, endpoints)
  end
  headers:remove("x-test-subset")
  headers:remove("x-test-subset-list")
end
"""


@dataclass(frozen=True)
class Pool:
    """Endpoints of one InferencePool, with the address of its picker."""

    picker: str
    endpoints: Sequence[str]
    name: str = "pool"
    weight: int = 1
    body_mode: BodyMode = "FULL_DUPLEX_STREAMED"
    answer_mode: BodyMode | None = None
    """Mode of answer bodies. None means that of request bodies."""
    buffer_bytes: int = BUFFER_BYTES
    message_timeout: str = "600s"
    """Time after which Envoy no longer waits for the picker in the mode BUFFERED."""
    idle_timeout: str = "600s"
    """Time after which Envoy ends a request without any data in either direction."""
    is_open: bool = False
    """Whether Envoy chooses an endpoint itself while the picker does not answer."""
    has_tls: bool = False
    """Whether Envoy calls the picker over TLS."""
    speaks_http2: bool = False
    """Whether the endpoints speak HTTP/2 without TLS (h2c)."""


@dataclass(frozen=True)
class Tls:
    certificate: Path
    key: Path


def configuration(pools: Sequence[Pool], *, port: int = 0, admin_port: int = 0, tls: Tls | None = None) -> Json:
    """Return Envoy's configuration for *pools*, which share the requests by weight. A port of 0 is any free port."""
    clusters = [each for pool in pools for each in (_endpoints(pool), _picker(pool))]
    return {
        "admin": {"address": _address(f"127.0.0.1:{admin_port}")},
        "static_resources": {"listeners": [_listener(pools, port, tls)], "clusters": clusters},
    }


def forwarding(target: str, *, to_http2: bool, to_tls: bool = False) -> Json:
    """Return the configuration of an Envoy that only translates between versions of HTTP on the way to *target*."""
    route = {"match": {"prefix": "/"}, "route": {"cluster": "target", "timeout": "0s"}}
    cluster: Json = {**_static("target", [target]), **(_http2() if to_http2 else {})}
    if to_tls:
        context = _typed("extensions.transport_sockets.tls.v3.UpstreamTlsContext")
        cluster["transport_socket"] = {"name": "tls", "typed_config": context}
    return {
        "admin": {"address": _address("127.0.0.1:0")},
        "static_resources": {"listeners": [_server(0, [route], [_ROUTER])], "clusters": [cluster]},
    }


def _listener(pools: Sequence[Pool], port: int, tls: Tls | None) -> Json:
    filters = [
        {"name": "subset", "typed_config": _typed("extensions.filters.http.lua.v3.Lua", **_inline(SUBSET_LUA))},
        # Each pool has a picker and a filter of its own, which only the route to this pool enables.
        *({**external_processing(pool), "disabled": True} for pool in pools),
        *served_endpoint(),
        _ROUTER,
    ]
    return _server(
        port,
        [_route(pools)],
        filters,
        tls,
        buffer_bytes=min(pool.buffer_bytes for pool in pools),
        idle_timeout=pools[0].idle_timeout,
    )


def _server(
    port: int,
    routes: Sequence[Json],
    filters: Sequence[Json],
    tls: Tls | None = None,
    *,
    buffer_bytes: int = BUFFER_BYTES,
    idle_timeout: str = "600s",
) -> Json:
    """Return a listener that takes HTTP/1.1 and HTTP/2, with or without TLS."""
    manager = _typed(
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="inference",
        codec_type="AUTO",
        stream_idle_timeout=idle_timeout,
        route_config={"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [*routes]}]},
        http_filters=[*filters],
    )
    chain: Json = {"filters": [{"name": "http", "typed_config": manager}]}
    if tls is not None:
        files = {"certificate_chain": {"filename": str(tls.certificate)}, "private_key": {"filename": str(tls.key)}}
        context = _typed(
            "extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            common_tls_context={"tls_certificates": [files], "alpn_protocols": ["h2", "http/1.1"]},
        )
        chain["transport_socket"] = {"name": "tls", "typed_config": context}
    return {
        "name": "inference",
        "address": _address(f"127.0.0.1:{port}"),
        "per_connection_buffer_limit_bytes": buffer_bytes,
        "filter_chains": [chain],
    }


def _route(pools: Sequence[Pool]) -> Json:
    """Return the route of all requests. Retries go to the further endpoints that the picker named."""
    action: Json = {
        "timeout": "0s",
        "retry_policy": {"retry_on": "connect-failure,refused-stream,reset-before-request", "num_retries": 2},
    }
    enabled = _typed("extensions.filters.http.ext_proc.v3.ExtProcPerRoute", overrides={})
    if len(pools) == 1:
        return {
            "match": {"prefix": "/"},
            "route": {"cluster": pools[0].name, **action},
            "typed_per_filter_config": {f"picker of {pools[0].name}": enabled},
        }
    clusters = [
        {
            "name": pool.name,
            "weight": pool.weight,
            "typed_per_filter_config": {f"picker of {pool.name}": enabled},
        }
        for pool in pools
    ]
    return {"match": {"prefix": "/"}, "route": {"weighted_clusters": {"clusters": clusters}, **action}}


def external_processing(pool: Pool) -> Json:
    """Return the filter that asks the picker of *pool*."""
    settings = _typed(
        "extensions.filters.http.ext_proc.v3.ExternalProcessor",
        grpc_service={"envoy_grpc": {"cluster_name": f"picker-of-{pool.name}"}, "timeout": "600s"},
        processing_mode={
            "request_header_mode": "SEND",
            "response_header_mode": "SEND",
            "request_body_mode": pool.body_mode,
            "response_body_mode": pool.answer_mode or pool.body_mode,
            "request_trailer_mode": "SEND" if pool.body_mode != "NONE" else "SKIP",
            "response_trailer_mode": "SEND" if pool.answer_mode != "NONE" else "SKIP",
        },
        message_timeout=pool.message_timeout,
        failure_mode_allow=pool.is_open,
        mutation_rules={"allow_all_routing": True},
        metadata_options={
            "forwarding_namespaces": {"untyped": ["envoy.lb.subset_hint", "envoy.lb"]},
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
        },
    )
    return {"name": f"picker of {pool.name}", "typed_config": settings}


def served_endpoint() -> list[Json]:
    """Return the filters that report the endpoint that answered to the picker, in the metadata of the answer."""
    served = "x-gateway-destination-endpoint-served"
    rule = {
        "header": served,
        "on_header_present": {"metadata_namespace": "envoy.lb", "key": served, "type": "STRING"},
        "remove": True,
    }
    header = {"header": {"key": served, "value": "%UPSTREAM_REMOTE_ADDRESS%"}}
    append = {"append": {**header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}}
    return [
        {
            "name": "served to metadata",
            "typed_config": _typed("extensions.filters.http.header_to_metadata.v3.Config", response_rules=[rule]),
        },
        {
            "name": "served endpoint",
            "typed_config": _typed(
                "extensions.filters.http.header_mutation.v3.HeaderMutation", mutations={"response_mutations": [append]}
            ),
        },
    ]


def _endpoints(pool: Pool) -> Json:
    override = _typed(
        "extensions.load_balancing_policies.override_host.v3.OverrideHost",
        override_host_sources=[
            {"header": DESTINATION},
            {"metadata": {"key": "envoy.lb", "path": [{"key": DESTINATION}]}},
        ],
        fallback_policy=_policy("round_robin", "round_robin.v3.RoundRobin"),
    )
    policies = [
        {"typed_extension_config": {"name": "envoy.load_balancing_policies.override_host", **_config(override)}}
    ]
    return {
        **_static(pool.name, pool.endpoints),
        "connect_timeout": "2s",
        "per_connection_buffer_limit_bytes": pool.buffer_bytes,
        "circuit_breakers": _circuit_breakers(),
        "load_balancing_policy": {"policies": policies},
        **(_http2() if pool.speaks_http2 else {}),
    }


def _picker(pool: Pool) -> Json:
    """Return the cluster of the picker of *pool*.

    Without the health check, Envoy learns that a picker is gone by the failure of a stream. It has then already sent a
    part of the body, and cannot choose an endpoint itself. It sends no streams to unhealthy pickers (threshold 0).
    """
    return {
        **_static(f"picker-of-{pool.name}", [pool.picker]),
        "connect_timeout": "1s",
        "circuit_breakers": _circuit_breakers(),
        "health_checks": [
            {
                "interval": "1s",
                "no_traffic_interval": "1s",
                "timeout": "10s",
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                "grpc_health_check": {"service_name": "readiness"},
            }
        ],
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        **({"transport_socket": _upstream_tls()} if pool.has_tls else {}),
        **_http2(),
    }


def _circuit_breakers() -> Json:
    """Return limits that no request reaches. Envoy's own are 1024 connections and requests in flight, and a request in
    flight also has a stream to the picker.
    """
    names = ("max_connections", "max_pending_requests", "max_requests")
    return {"thresholds": [dict.fromkeys(names, MAX_IN_FLIGHT)]}


def _upstream_tls() -> Json:
    """Return the setting with which Envoy uses TLS, and accepts any certificate."""
    context = _typed(
        "extensions.transport_sockets.tls.v3.UpstreamTlsContext", common_tls_context={"alpn_protocols": ["h2"]}
    )
    return {"name": "tls", "typed_config": context}


def _static(name: str, endpoints: Sequence[str]) -> Json:
    members = [{"endpoint": {"address": _address(each)}} for each in endpoints]
    return {
        "name": name,
        "type": "STATIC",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": members}]},
    }


def _http2() -> Json:
    options = _typed(
        "extensions.upstreams.http.v3.HttpProtocolOptions",
        explicit_http_config={"http2_protocol_options": {}},
    )
    return {"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}}


def _policy(name: str, kind: str) -> Json:
    policy = _typed(f"extensions.load_balancing_policies.{kind}")
    return {
        "policies": [{"typed_extension_config": {"name": f"envoy.load_balancing_policies.{name}", **_config(policy)}}]
    }


def _config(value: Json) -> Json:
    return {"typed_config": value}


def _inline(text: str) -> Json:
    return {"default_source_code": {"inline_string": text}}


def _typed(kind: str, **values: Any) -> Json:
    return {"@type": f"{TYPES}.{kind}", **values}


def _address(endpoint: str) -> Json:
    host, _, port = endpoint.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


_ROUTER = {"name": "envoy.filters.http.router", "typed_config": _typed("extensions.filters.http.router.v3.Router")}
