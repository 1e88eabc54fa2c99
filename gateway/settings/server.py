"""The groups for the process: its addresses, bounds and logs."""

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
    host: Token = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0 for all of IPv4")
    port: int = Field(default=8080, ge=0, le=65535, description="port to listen on; 0: any free port")
    reuse_port: bool = Field(
        default=False,
        description="let several gateways on one machine listen on port and share its clients",
    )
    probes_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="extra port for /livez, /readyz and /metrics, available when port is full; null: none",
    )
    max_body_bytes: Count = Field(
        default=8 * 2**20,
        description="largest request body, decompressed; more is answered 413. 8 MiB is 2 million tokens of text, or 6 "
        "MB of images: as base64 a photo of 2048 x 2048 has 0.5 to 1.5 MB. Raise it for audio and many images: each "
        "MiB takes up to 8 MiB of memory for some 10 ms",
    )
    max_body_values: Count = Field(
        default=200_000,
        description="values (objects, lists, texts, numbers) in a JSON body over 256 KiB, or with more than 2,000 "
        "commas and brackets; more is answered 400. Each token id is one",
    )
    max_body_cpu_s: Positive = Field(
        default=2, description="processor time that decoding one body may take; more is answered 400"
    )
    max_bodies_bytes: Count = Field(
        default=512 * 2**20,
        description="all request bodies over 256 KiB in flight together; while they take it all, more are answered 503",
    )
    max_memory_bytes: Count | None = Field(
        default=None,
        description="memory (RSS) above which new requests are answered 503 until it is below; null: 90 % of the "
        "container's limit, none without one",
    )
    max_concurrent_requests: Count | None = Field(
        default=None, description="completions served at once, of all callers; more are answered 503; null: no limit"
    )
    compress_min_bytes: Count | None = Field(
        default=None,
        description="whole answers of this size and more are compressed for clients that take zstd or gzip; null: none",
    )
    max_connections: Count = Field(default=10_000, description="maximum open client connections")
    max_connections_per_address: Count | None = Field(
        default=None,
        description="maximum connections per address (IPv6: per /64), except trusted_proxies; null: 90 % of all",
    )
    max_header_bytes: int = Field(
        default=64 * 2**10, ge=8192, description="largest request line and headers together; more is answered 431"
    )
    keep_alive_s: Count = Field(default=75, description="how long an idle client connection stays open")
    body_idle_s: Positive = Field(default=60, description="how long a client may pause while it sends a body")
    min_body_bytes_per_s: NotNegative = Field(
        default=500,
        description="slowest rate of a body after 20 s; a slower one is answered 408; 0: any rate",
    )
    write_timeout_s: Positive = Field(
        default=300, description="how long a client may leave an answer unread while all buffers are full"
    )
    sse_keep_alive_s: Positive | None = Field(
        default=15, description="silence after which a stream gets a comment; null: never"
    )
    stop_delay_s: NotNegative = Field(
        default=0, description="how long requests are still accepted after SIGTERM, while /readyz answers 503"
    )
    shutdown_grace_s: int = Field(default=30, ge=0, description="time for running requests to finish at a stop")
    open_mode: Literal["loopback", "network"] = Field(
        default="loopback",
        description="callers that are served when neither teams nor a store are set: this machine, or all",
    )
    cors_origins: Annotated[tuple[Origin, ...], Field(strict=False)] = Field(
        default=(),
        description="origins of web pages that may send requests, such as https://chat.example.com; '*' for all",
    )
    zone: Token | None = Field(default=None, description="zone of this gateway, e.g. us-east-1a; null: not known")
    trusted_proxies: Networks = Field(
        default=(), description="addresses of proxies whose x-forwarded-for says where a request comes from"
    )
    hit_headers: Literal["own", "shared", "off"] = Field(
        default="own",
        description="teams that see x-warmgate-hit-*: own: those that share no prefixes; shared: all; off: none",
    )
    user_header: HeaderName = Field(
        default="x-end-user", description="request header that names the end user, before user in the body"
    )


class LoggingSettings(Group):
    requests: bool = Field(default=True, description="one line of JSON per request, without prompt and key")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest log level that is written"
    )
    format: Literal["text", "json"] = Field(
        default="text",
        description="format of the program's log on stderr; lines of requests are always JSON",
    )
