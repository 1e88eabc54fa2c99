from documentation.pictures.token_bucket import token_bucket


def test_the_three_steps_are_in_their_order() -> None:
    svg = token_bucket()

    assert svg.index("1  reserve") < svg.index("2  refill") < svg.index("3  reconcile")
