from gateway.models.routes.tool_loops import ToolLoops


def test_the_latest_model_of_a_loop_is_known() -> None:
    loops = ToolLoops()
    loops.keep(b"1", "a")
    loops.keep(b"1", "b")

    assert ("b", None, 1) == (loops.model_of(b"1"), loops.model_of(b"2"), len(loops))


def test_the_loop_that_was_used_least_recently_is_forgotten() -> None:
    loops = ToolLoops(max_loops=2)
    for loop in (b"1", b"2", b"1", b"3"):
        loops.keep(loop, "a")

    assert [b"1", b"3"] == [loop for loop in (b"1", b"2", b"3") if loops.model_of(loop)]
    assert 2 == len(loops)
