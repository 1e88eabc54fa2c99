"""Cost of a request whose caller is identified by a token of an OpenID Connect issuer, compared with an API key.

One gateway serves both kinds of callers in alternating rounds. They belong to the same team, with the same limits. The
gateway verifies the token with the first request, before the measurement.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if the benchmark could not run.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from benchmarks.bench import SECRET, Bench, Measurement, check_answers, two_cores
from benchmarks.chat_bodies import PROMPTS
from benchmarks.load_tools import install_tools, tool_versions
from benchmarks.overhead import beside, limits_of_the_setup, load_table
from benchmarks.processes import ChildFailedError, Processes, pinned
from benchmarks.report import Bar, Circumstances, Report, argument_parser, conclude
from benchmarks.shipped import build

WARM_UP_S = 2.0
MIN_SHARE = 0.97
"""Minimum share of the requests per processor second of callers with a key."""
WITH_KEY = "callers with a key"
WITH_TOKEN = "callers with a token"
TEAM = "benchmark"
AUDIENCE = "urn:warmgate"
LIFETIME_S = 3600
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "msgspec", "pyjwt")


def main() -> int:
    arguments = parse_arguments()
    return conclude("token_callers", lambda: run(arguments), results=arguments.results, cannot_run=[ChildFailedError])


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("token_callers", __doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=2.0, help="of load per kind of caller and round")
    parser.add_argument("--connections", type=int, default=32)
    return parser.parse_args(arguments)


def run(arguments: argparse.Namespace) -> Report:
    """Prepare the machine, run the measurements, and return the report."""
    proxy_core, load_core = two_cores()
    install_tools()
    circumstances = Circumstances.observe(seed=arguments.seed, packages=PACKAGES, tools=tool_versions())
    report = Report("token_callers", "Cost of tokens in place of API keys", circumstances)
    report.notes.append(
        f"{arguments.rounds} rounds of {arguments.seconds:g} s, {arguments.connections} connections, {PROMPTS} prompts "
        f"of 1.2 kB. One gateway for both kinds of callers, as the image holds it, on one core; stub worker and wrk on "
        f"another. The team has four limits. The token is signed by RS256 and was verified before the measurement."
    )
    shipped = build()
    with issuer() as (settings, token), Processes() as processes, pinned({load_core}):
        bench = Bench(
            processes,
            proxy_core=proxy_core,
            load_core=load_core,
            connections=arguments.connections,
            seed=arguments.seed,
        )
        stub = bench.start_stub()
        with_key = bench.start_gateway(
            stub.urls["requests"],
            name=WITH_KEY,
            command=shipped.command,
            environment=shipped.environment,
            settings={**settings, "store": {"url": bench.store_url()}},
        )
        targets = [with_key, replace(with_key, name=WITH_TOKEN, secret=token)]
        for target in targets:
            check_answers(target)
            bench.measure(target, stub, "requests", round_number=-1, seconds=WARM_UP_S)
        found = [
            bench.measure(target, stub, "requests", round_number=number, seconds=arguments.seconds)
            for number in range(arguments.rounds)
            for target in (targets if number % 2 else targets[::-1])
        ]
    fill(report, found)
    return report


def fill(report: Report, found: Sequence[Measurement]) -> None:
    """Write targets, tables and notes from the measurements."""
    share = beside(found, WITH_TOKEN, WITH_KEY, "requests").median
    report.bars.append(Bar("requests per processor second of callers with a token, of a key", share, ">=", MIN_SHARE))
    report.bars.append(Bar("failed answers", sum(each.errors for each in found), "==", 0))
    report.tables.append(load_table(found, [WITH_KEY, WITH_TOKEN], "requests", stub=""))
    report.notes += limits_of_the_setup(found, stub="")
    report.figures["measurements"] = list(found)


@contextmanager
def issuer() -> Iterator[tuple[Mapping[str, Any], str]]:
    """Serve the keys of an issuer on this machine. Yield settings of a gateway that trusts it, and a token."""
    key = rsa.generate_private_key(65537, 2048)
    public = {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "first", "use": "sig"}
    del public["key_ops"]
    with served(json.dumps({"keys": [public]}).encode()) as url:
        claims = {"iss": url, "aud": AUDIENCE, "sub": "caller", "groups": [TEAM], "exp": int(time.time()) + LIFETIME_S}
        yield settings_for(url), jwt.encode(claims, key, algorithm="RS256", headers={"kid": "first"})


def settings_for(url: str) -> Mapping[str, Any]:
    """Return settings with one team for an API key and for the tokens of the issuer *url*."""
    limits = {
        "requests_per_minute": 10**8,
        "tokens_per_minute": 10**11,
        "usd_per_month": 10**9,
        "max_concurrent_requests": 10**4,
    }
    trusted = {
        "name": "issuer",
        "issuer": url,
        "audiences": [AUDIENCE],
        "jwks_url": f"{url}/keys",
        "rules": [{"value": TEAM, "team": TEAM}],
    }
    return {
        "teams": [{"name": TEAM, "limits": limits, "keys": [{"id": "key", "secret": SECRET}]}],
        "identity": {"issuers": [trusted]},
    }


@contextmanager
def served(content: bytes) -> Iterator[str]:
    """Answer each GET request with *content*, a JSON document. Yield the address."""

    class Document(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server looks for
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Document)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
