from gateway.batch.batch import BatchInfo, BatchUsage, batch_in, begun, cancelling, ended, failed, finalizing, new_batch
from gateway.batch.line_store import Progress
from gateway.batch.plan import LineFault

INFO = BatchInfo("/v1/embeddings", "file-1", "ci", created_at=100, expires_at=200)


def test_a_batch_is_read_as_it_was_written() -> None:
    batch = new_batch("batch_1", "blue", INFO)

    assert batch == batch_in(batch.record)
    assert ("batch_1", "blue", 0.0, 1) == (batch.id, batch.team, batch.record.due_at, batch.record.version)


def test_a_change_is_the_next_version() -> None:
    batch = new_batch("batch_1", "blue", INFO).changed(begun(INFO, 7, ["tiny"], 110.9), due_at=5.0)

    assert (2, 5.0) == (batch.record.version, batch.record.due_at)
    assert ("in_progress", 110, 7) == (batch.info.status, batch.info.in_progress_at, batch.info.total)
    assert batch == batch_in(batch.record)


def test_one_gateway_holds_a_batch_until_its_lease_ends() -> None:
    held = new_batch("batch_1", "blue", INFO).held("a", now=10.0, until=20.0)

    assert held is not None
    assert held.held("b", now=19.0, until=30.0) is None
    assert held.held("a", now=19.0, until=30.0) is not None
    assert held.held("b", now=20.0, until=30.0) is not None


def test_states_have_their_times() -> None:
    fault = LineFault("invalid_request", "x", "body.n", 3)
    refused = failed(INFO, [fault], 1.5)
    end = finalizing(INFO, "expired", 2.5)
    over = ended(end, Progress(3, 1, 1), BatchUsage(1, 2, 3, 4), output_file_id="file-o", error_file_id=None, now=3.5)
    cancelled = ended(
        cancelling(INFO, 4.0), Progress(0, 0, 0), BatchUsage(), output_file_id=None, error_file_id=None, now=5.0
    )

    assert ("failed", 1, [fault]) == (refused.status, refused.failed_at, refused.errors)
    assert ("finalizing", 2) == (end.status, end.finalizing_at)
    assert ("expired", 3, None) == (over.status, over.expired_at, over.completed_at)
    assert (1, 1, "file-o", BatchUsage(1, 2, 3, 4)) == (over.completed, over.failed, over.output_file_id, over.usage)
    assert ("cancelled", 4, 5) == (cancelled.status, cancelled.cancelling_at, cancelled.cancelled_at)
