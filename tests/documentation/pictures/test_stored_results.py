from documentation.pictures.stored_results import figures, medians


def test_figures_of_a_stored_report_are_found_by_its_name() -> None:
    assert {"kv_aware", "round_robin"} <= figures("replay")["Coding agents"].keys()


def test_medians_of_a_column_are_found_by_the_row() -> None:
    rates = medians("peers_saturation", "Requests: median (lowest – highest) of the rounds", "per s")

    assert {"nginx", "warmgate", "litellm"} <= rates.keys()
    assert all(rate > 0 for rate in rates.values())
