"""Where one engine reports its cache."""

from gateway.settings import WorkerEventsSettings
from tests.gateway.settings.examples import parsed, sentences, with_worker


def test_what_is_not_said_is_that_of_one_engine_without_replays() -> None:
    events = parsed(with_worker(kv_events={"endpoint": "tcp://10.0.0.5:5557"})).models[0].workers[0].kv_events

    assert WorkerEventsSettings(endpoint="tcp://10.0.0.5:5557", replay_endpoint=None, topic="", ranks=1) == events


def test_an_address_is_zeromqs() -> None:
    (reported,) = sentences(with_worker(kv_events={"endpoint": "10.0.0.5:5557"}))

    assert "the value must be a ZeroMQ address such as tcp://10.0.0.5:5557." in reported
