"""Settings for the gateway process: its addresses, limits and logs."""

from typing import Annotated, Literal

from pydantic import Field

from gateway.protocol.field_types import Group, Networks, Token
from gateway.settings.rules import (
    Count,
    HeaderName,
    NotNegative,
    Origin,
    Positive,
)


class ServerSettings(Group):
    host: Token = Field(
        default="127.0.0.1", description="address that the gateway listens on. Use 0.0.0.0 for all IPv4 interfaces."
    )
    port: int = Field(
        default=8080, ge=0, le=65535, description="TCP port that the gateway listens on. Use 0 for any free port."
    )
    reuse_port: bool = Field(
        default=False,
        description="let several gateways on one machine listen on the same port and share its connections",
    )
    probes_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="additional port for /livez, /readyz and /metrics, which stays reachable when the main port "
        "has no free connections. Null means no additional port.",
    )
    max_body_bytes: Count = Field(
        default=8 * 2**20,
        description="maximum size of a request body in bytes, after decompression. Larger bodies get status 413. The "
        "default, 8 MiB, holds 2 million tokens of text or 6 MB of images; a 2048 x 2048 photo takes 0.5 to 1.5 MB "
        "in base64. Use a higher limit for audio or many images. Each MiB of a body takes up to 8 MiB of memory for "
        "about 10 ms.",
    )
    max_body_values: Count = Field(
        default=200_000,
        description="maximum number of JSON values (objects, lists, strings, numbers) in a request body. Bodies "
        "with more values get status 400. Each token id is one value. The limit applies to bodies "
        "over 256 KiB, or with more than 2,000 commas and brackets.",
    )
    max_body_cpu_s: Positive = Field(
        default=2,
        description="maximum processor time in seconds for decoding one request body. Bodies that take longer "
        "get status 400.",
    )
    max_bodies_bytes: Count = Field(
        default=512 * 2**20,
        description="maximum total size in bytes of all request bodies over 256 KiB that are being processed. "
        "Further large bodies get status 503.",
    )
    max_memory_bytes: Count | None = Field(
        default=None,
        description="resident memory (RSS) of the gateway, in bytes, above which new requests get status 503. "
        "Null means 90 % of the container's memory limit, or no limit if the container has none.",
    )
    max_concurrent_requests: Count | None = Field(
        default=None,
        description="maximum number of completion requests that the gateway serves at once, across all callers. "
        "Further requests get status 503. Null means no limit.",
    )
    compress_min_bytes: Count | None = Field(
        default=None,
        description="minimum size in bytes of a non-streaming answer that is compressed, if the client accepts "
        "zstd or gzip. Null disables compression.",
    )
    max_connections: Count = Field(default=10_000, description="maximum number of open client connections")
    max_connections_per_address: Count | None = Field(
        default=None,
        description="maximum number of open connections per client address (for IPv6, per /64 network), except from "
        "trusted_proxies. Null means 90 % of max_connections. If clients connect directly, choose the number that "
        "one client needs.",
    )
    max_header_bytes: int = Field(
        default=64 * 2**10,
        ge=8192,
        description="maximum size of the request line and headers together, in bytes. Larger requests get status 431.",
    )
    keep_alive_s: Count = Field(
        default=75,
        description="seconds that an idle client connection stays open. Choose more than the idle timeout of a proxy "
        "in front of the gateway.",
    )
    body_idle_s: Positive = Field(
        default=60,
        description="maximum seconds that a client pauses while it sends a request body. Longer pauses get status 408.",
    )
    min_body_bytes_per_s: NotNegative = Field(
        default=500,
        description="minimum rate, in bytes per second, at which a request body must arrive after its first 20 "
        "seconds. Slower bodies get status 408. Use 0 to accept any rate.",
    )
    write_timeout_s: Positive = Field(
        default=300,
        description="seconds after which a client that does not read its answer is disconnected, once all "
        "buffers are full",
    )
    sse_keep_alive_s: Positive | None = Field(
        default=15,
        description="seconds of silence after which a stream gets an SSE comment, so that proxies keep its "
        "connection open. Choose less than the read timeout of the proxy. Null disables these comments.",
    )
    stop_delay_s: NotNegative = Field(
        default=0,
        description="seconds after SIGTERM during which the gateway still accepts requests while /readyz returns "
        "503. Choose the time that a load balancer needs to notice the status.",
    )
    shutdown_grace_s: int = Field(
        default=30, ge=0, description="seconds that running requests have to finish on shutdown"
    )
    open_mode: Literal["loopback", "network"] = Field(
        default="loopback",
        description="callers that can send requests if neither teams nor a store are configured: loopback (programs "
        "on this machine) or network (all hosts)",
    )
    cors_origins: Annotated[tuple[Origin, ...], Field(strict=False)] = Field(
        default=(),
        description="origins of web pages that are allowed to call the gateway from a browser, e.g. "
        "https://chat.example.com. Use '*' for all origins.",
    )
    zone: Token | None = Field(
        default=None,
        description="availability zone of this gateway, e.g. us-east-1a. Workers in the same zone are preferred. "
        "Null means that the zone is unknown.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="addresses or networks of proxies whose x-forwarded-for header is trusted to name the "
        "client's address",
    )
    hit_headers: Literal["own", "shared", "off"] = Field(
        default="own",
        description="teams that receive predicted cache hits in x-warmgate-hit-* headers: own (only teams with "
        "isolated_cache), shared (all teams) or off (none). A hit in a shared cache can reveal the "
        "prompts of other teams.",
    )
    cost_header: bool = Field(
        default=False,
        description="report the cost of each answer that is not streamed in the header x-warmgate-cost-usd, in US "
        "dollars. The header is omitted if the model has no price or the engine reports no usage.",
    )
    user_header: HeaderName = Field(
        default="x-end-user",
        description="request header that names the end user. The header takes precedence over the body field user.",
    )


class LoggingSettings(Group):
    requests: bool = Field(
        default=True, description="write one line of JSON per request to the log, without the prompt and the key"
    )
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="minimum level of the messages that the gateway logs"
    )
    format: Literal["text", "json"] = Field(
        default="text",
        description="format of the program log on stderr. Request log lines are always JSON.",
    )
