from documentation.reference.metrics import page, undocumented


def test_every_metric_of_the_gateway_has_a_meaning() -> None:
    assert set() == undocumented()


def test_a_row_has_the_name_of_the_exposition_with_type_and_labels() -> None:
    """Counters end in `_total`."""
    assert "| `warmgate_requests_total` | counter | model, status | Completion requests by response status" in page()
    assert "| `warmgate_worker_up` | gauge | model, worker |" in page()
