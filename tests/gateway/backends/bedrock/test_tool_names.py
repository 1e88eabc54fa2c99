import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.bedrock.tool_names import ToolNames, is_tool_name


def test_a_good_name_stays_as_it_is() -> None:
    names = ToolNames(["get_weather", "Add-2"])

    assert "get_weather" == names.sent("get_weather")
    assert "Add-2" == names.original("Add-2")


def test_a_strange_name_is_made_plain() -> None:
    names = ToolNames(["functions.get weather"])

    assert "functions_get_weather" == names.sent("functions.get weather")
    assert "functions.get weather" == names.original("functions_get_weather")


def test_names_that_would_become_one_stay_two() -> None:
    """A name that needs no change keeps it, wherever it comes in the order."""
    names = ToolNames(["a.b", "a b", "a_b"])

    assert "a_b" == names.sent("a_b")
    assert 3 == len({names.sent(name) for name in ("a.b", "a b", "a_b")})
    assert ["a.b", "a b", "a_b"] == [names.original(names.sent(name)) for name in ("a.b", "a b", "a_b")]


def test_a_long_name_keeps_its_beginning() -> None:
    names = ToolNames(["x" * 70, "x" * 71])

    assert 64 == len(names.sent("x" * 70))
    assert names.sent("x" * 70).startswith("x" * 55 + "_")
    assert names.sent("x" * 70) != names.sent("x" * 71)


def test_a_name_that_is_made_is_no_one_elses() -> None:
    made = ToolNames(["x" * 70]).sent("x" * 70)
    names = ToolNames(["x" * 70, made])

    assert made == names.sent(made)
    assert made != names.sent("x" * 70)


def test_a_name_is_the_same_in_the_next_request() -> None:
    """Whatever else is there: the model's prompt cache lives on that."""
    assert ToolNames(["x" * 70]).sent("x" * 70) == ToolNames(["a", "b c", "x" * 70]).sent("x" * 70)


def test_a_name_that_the_model_made_up_stays_as_it_is() -> None:
    assert "invented" == ToolNames(["add"]).original("invented")


def test_a_name_no_one_gave_cannot_be_sent() -> None:
    with pytest.raises(KeyError):
        ToolNames(["add"]).sent("sub")


def test_a_free_name_is_no_ones() -> None:
    assert "json_answer" == ToolNames(["add"]).free("json_answer")
    assert ToolNames(["json_answer"]).free("json_answer").startswith("json_answer_")


@given(st.lists(st.text(max_size=80) | st.sampled_from(["a.b", "a_b", "a b", "", "x" * 64, "x" * 65])))
def test_every_name_has_one_of_its_own_that_leads_back(asked: list[str]) -> None:
    names = ToolNames(asked)
    sent = {name: names.sent(name) for name in asked}

    assert len(set(asked)) == len(set(sent.values()))
    assert all(is_tool_name(name) for name in sent.values())
    assert all(name == names.original(made) for name, made in sent.items())
