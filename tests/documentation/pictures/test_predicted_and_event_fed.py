from documentation.pictures.predicted_and_event_fed import predicted_and_event_fed


def test_only_one_of_the_two_receives_events() -> None:
    svg = predicted_and_event_fed()

    assert 2 == svg.count(">Radix tree<")
    assert 1 == svg.count(">KV events:<")
