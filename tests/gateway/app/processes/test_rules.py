"""The variables of each process."""

from gateway.app.processes.rules import ProcessRules


def rules(shapes: str | None) -> ProcessRules:
    shared = {"WARMGATE_STORE__REPLICAS": "2"}
    return ProcessRules(2, "127.0.0.1", 8080, None, None, shared, shapes, None, None, stop_s=30, is_log_json=False)


def test_a_process_gets_the_shares_and_the_store() -> None:
    assert {"WARMGATE_STORE__REPLICAS": "2", "WARMGATE_STORE__URL": "unix:///s"} == rules(None).variables_of(
        1, "unix:///s"
    )


def test_a_configured_store_is_kept() -> None:
    assert {"WARMGATE_STORE__REPLICAS": "2"} == rules(None).variables_of(1, None)


def test_each_process_records_shapes_in_a_folder_of_its_own() -> None:
    assert "/data/process-2" == rules("/data").variables_of(2, None)["WARMGATE_REQUEST_SHAPES__DIRECTORY"]
