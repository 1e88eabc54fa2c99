import msgspec

from gateway.telemetry.what_if.job import Change, FleetShape, Job, Message
from tests.gateway.telemetry.what_if.examples import a_job

RECORDED = FleetShape("prefix_aware", 3, 1000)


def test_a_change_of_nothing_is_the_recorded_fleet() -> None:
    assert RECORDED == Change().applied(RECORDED)


def test_a_change_replaces_what_it_names() -> None:
    """Caches by their size, or as a multiple."""
    assert FleetShape("round_robin", 5, 1000) == Change(strategy="round_robin", workers=5).applied(RECORDED)
    assert FleetShape("prefix_aware", 3, 200) == Change(cache_tokens=200).applied(RECORDED)
    assert FleetShape("prefix_aware", 3, 2500) == Change(cache_factor=2.5).applied(RECORDED)


def test_jobs_and_messages_pass_between_processes() -> None:
    job = a_job(None, Change(workers=2), trace="{}")

    assert job == msgspec.json.decode(msgspec.json.encode(job), type=Job)
    assert Message(done=0.5) == msgspec.json.decode(msgspec.json.encode(Message(done=0.5)), type=Message)
