"""Workers as values."""

import pytest

from gateway.workers.worker_spec import WorkerSpec, is_valid


def test_a_key_is_not_shown_and_is_a_header() -> None:
    worker = WorkerSpec("http://a:1", "a", api_key="sk-hidden")

    assert "sk-hidden" not in repr(worker)
    assert {"authorization": "Bearer sk-hidden"} == worker.authorization
    assert {} == WorkerSpec("http://a:1", "a").authorization


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        (WorkerSpec("http://a:1", "a", uid="u", zone="z"), True),
        (WorkerSpec("http://user@a:1", "a"), False),
        (WorkerSpec("http://a:1/v1", "a"), False),
        (WorkerSpec("a:1", "a"), False),
        (WorkerSpec("http://a:1", "a b"), False),
        (WorkerSpec("http://a:1", "a", zone=""), False),
    ],
)
def test_a_worker_needs_an_address_and_names_without_spaces(worker: WorkerSpec, expected: bool) -> None:
    assert is_valid(worker) is expected
