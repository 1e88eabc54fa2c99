"""Where traces go."""

import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.app.mapping.surroundings import receiver_of, team_receivers, trace_rules
from gateway.proxy.completed_requests import CompletedRequest
from gateway.settings import Settings, build
from gateway.telemetry.trace_export.tracing import TracesUnavailableError, Tracing
from tests.fakes.otlp_receiver import OtlpReceiver, receiving
from tests.gateway.examples import Clock, an_ended_request, an_exchange
from tests.gateway.telemetry.trace_export.examples import WALL_S, answered


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as there:
        yield there


def settings(*teams: dict[str, Any], **tracing: Any) -> Settings:
    models = [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}]
    return build({"models": models, "teams": list(teams), "tracing": tracing}, {})


def a_team(name: str, url: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "tracing": {"endpoint": url, **more}}


def a_tracing(settings: Settings) -> Tracing:
    return Tracing(
        *(trace_rules(settings.tracing), receiver_of(settings.tracing), team_receivers(settings)),
        instance="gw-1",
        clock=Clock(100.0),
        wall_clock=Clock(WALL_S),
        rng=random.Random(7),
    )


def result(tracing: Tracing) -> dict[str, float]:
    """What the metric says, by its labels, but for what has not happened."""
    registry = CollectorRegistry()
    registry.register(tracing)
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    found = [line.removeprefix("warmgate_traces_total").rsplit(" ", 1) for line in lines]
    return {labels: float(value) for labels, value in found if float(value)}


def paths(receiver: OtlpReceiver) -> list[str]:
    return sorted(receiver.paths)


def observe(tracing: Tracing, *teams: str | None) -> None:
    for team in teams:
        ended = answered(an_exchange(team=team, model="tiny", status=200))
        tracing.observe([CompletedRequest(ended.exchange, ended.at)])


def test_without_a_destination_nothing_is_traced() -> None:
    """A metric without values is all that there is of it."""
    tracing = a_tracing(settings({"name": "blue"}))
    tracing.observe([an_ended_request(101.0)])
    tracing.close()

    assert tracing.tracers.current is None
    assert {} == result(tracing)


def test_the_operator_gets_all_traces_and_a_team_its_own(receiver: OtlpReceiver) -> None:
    """Each at its own address."""
    teams = [a_team("blue", f"{receiver.url}/blue"), a_team("red", f"{receiver.url}/red"), {"name": "green"}]
    tracing = a_tracing(settings(*teams, endpoint=f"{receiver.url}/all"))
    observe(tracing, "blue", "green", None)
    tracing.observe([an_ended_request(101.0, team="blue")])  # not sampled
    tracing.close()

    assert ["/all/v1/traces", "/blue/v1/traces"] == paths(receiver)
    assert {
        '{destination="operator",outcome="sent"}': 3.0,
        '{destination="team:blue",outcome="sent"}': 1.0,
    } == result(tracing)


def test_spans_say_where_they_are_from(receiver: OtlpReceiver) -> None:
    tracing = a_tracing(
        settings(endpoint=receiver.url, service_name="edge", resource={"deployment.environment.name": "prod"})
    )
    observe(tracing, None)
    tracing.close()

    resource = receiver.spans[0].resource
    assert ("edge", "gw-1", "prod") == tuple(
        resource[name] for name in ("service.name", "service.instance.id", "deployment.environment.name")
    )
    assert resource["service.version"]


@pytest.mark.parametrize(
    ("path", "said", "is_langfuse"),
    [("", None, False), ("/api/public/otel", None, True), ("", True, True), ("/api/public/otel", False, False)],
)
def test_langfuse_is_known_by_its_address(
    receiver: OtlpReceiver, path: str, said: bool | None, is_langfuse: bool
) -> None:
    """Unless the settings say what it is."""
    tracing = a_tracing(settings(endpoint=receiver.url + path, langfuse=said))
    observe(tracing, None)
    tracing.close()

    assert is_langfuse == ("langfuse.observation.type" in receiver.spans[0].attributes)


def test_teams_change_while_requests_are_served(receiver: OtlpReceiver) -> None:
    """What a team has that goes away is sent; what stays the same stays; counts never fall."""
    blue, red = a_team("blue", f"{receiver.url}/blue"), a_team("red", f"{receiver.url}/red")
    tracing = a_tracing(settings(blue, red))
    observe(tracing, "blue", "red")
    tracing.use(tracing.destinations(team_receivers(settings(blue, a_team("red", f"{receiver.url}/other")))))
    observe(tracing, "blue", "red")
    is_on = [tracing.tracers.current is not None]
    tracing.use(tracing.destinations({}))
    is_on.append(tracing.tracers.current is not None)
    observe(tracing, "blue", "red")
    receiver.wait(lambda it: len(it.spans) == 4 * 5)
    tracing.close()

    assert [True, False] == is_on
    assert {"/blue/v1/traces", "/red/v1/traces", "/other/v1/traces"} == set(receiver.paths)
    assert {
        '{destination="team:blue",outcome="sent"}': 2.0,
        '{destination="team:red",outcome="sent"}': 2.0,
    } == result(tracing)


@pytest.mark.parametrize(
    ("operators", "team", "kept_of"),
    [(False, False, []), (True, False, [None, "blue", "red"]), (False, True, ["blue"])],
)
def test_content_is_kept_if_a_destination_gets_it(
    receiver: OtlpReceiver, operators: bool, team: bool, kept_of: list[str | None]
) -> None:
    tracing = a_tracing(
        settings(a_team("blue", receiver.url, content=team), {"name": "red"}, endpoint=receiver.url, content=operators)
    )

    assert kept_of == [name for name in (None, "blue", "red") if tracing.keeps_content(name)]


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"tracing": {"endpoint": "http://collector:4318"}}, "tracing"),
        ({"teams": [a_team("blue", "http://collector:4318")]}, "teams[].tracing"),
    ],
)
def test_the_extra_is_asked_for_where_it_is_needed(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], place: str
) -> None:
    monkeypatch.delitem(sys.modules, "gateway.telemetry.trace_export.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.trace.v1", None)
    models = [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}]
    with pytest.raises(TracesUnavailableError) as refused:
        a_tracing(build({"models": models, **said}, {}))

    assert f"{place}.endpoint needs the extra warmgate[otel], which is not installed." == str(refused.value)


@pytest.mark.e2e
def test_where_nothing_is_traced_nothing_is_imported() -> None:
    """Neither the messages nor what sends them; FastAPI brings OpenTelemetry's API by itself."""
    program = """
import sys
from gateway.app.application import create_app
from gateway.settings import build
create_app(build({"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}]}, {}))
extras = ("opentelemetry.proto", "google.protobuf", "gateway.telemetry.trace_export")
print([name for name in sys.modules if name.startswith(extras)])
"""
    imported = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout

    assert "gateway.telemetry.trace_export.tracing" in imported
    assert not any(name in imported for name in ("opentelemetry.proto", "google.protobuf", "tracing.otlp", "sender"))
