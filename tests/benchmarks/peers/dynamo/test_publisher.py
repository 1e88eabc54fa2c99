import pytest
import zmq

from benchmarks.peers.dynamo.publisher import NobodyListensError, Publisher


def test_a_subscriber_gets_all_batches_of_its_engine_in_order() -> None:
    """Although they were made before it came: frames are topic, sequence and batch."""
    with zmq.Context() as context, Publisher(2) as publisher:
        subscribers = [context.socket(zmq.SUB) for _ in publisher.ports]
        for subscriber, port in zip(subscribers, publisher.ports, strict=True):
            subscriber.setsockopt(zmq.RCVTIMEO, 10_000)
            subscriber.subscribe(b"")
            subscriber.connect(f"tcp://127.0.0.1:{port}")
        publisher.publish({0: [b"first", b"second"], 1: [b"other"]}, timeout_s=10.0)
        heard = [subscribers[0].recv_multipart(), subscribers[0].recv_multipart(), subscribers[1].recv_multipart()]
        for subscriber in subscribers:
            subscriber.close()

    assert [[b"", bytes(8), b"first"], [b"", bytes(7) + b"\x01", b"second"], [b"", bytes(8), b"other"]] == heard


def test_an_engine_that_no_one_listens_to_is_an_error() -> None:
    """Rather than a comparison with somebody who knows nothing."""
    with Publisher(2) as publisher, pytest.raises(NobodyListensError, match="2 engines without a subscriber"):
        publisher.publish({}, timeout_s=0.05)
