from documentation.pictures.stored_results import figures


def test_figures_of_a_stored_report_are_found_by_its_name() -> None:
    assert {"kv_aware", "round_robin"} <= figures("replay")["Coding agents"].keys()
