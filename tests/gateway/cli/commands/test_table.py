from gateway.cli.commands.table import card, table, text_of


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    """Numbers stand at the right, texts at the left, and no line ends in spaces."""
    rows = [{"name": "blue", "cost_usd": 12.5, "project": None}, {"name": "a", "cost_usd": 3, "project": "x"}]

    assert (
        "NAME  COST USD  PROJECT\n"
        "blue      12.5  -\n"
        "a            3  x\n"
    ) == table(rows, ("name", "cost_usd", "project"))  # fmt: skip


def test_a_column_of_nothing_is_one_of_text() -> None:
    assert "PROJECT  N\n-        1\n" == table([{"n": 1}], ("project", "n"))


def test_no_rows_are_the_names_of_the_columns() -> None:
    assert "NAME  MODELS\n" == table([], ("name", "models"))


def test_a_card_has_a_line_for_what_is_there() -> None:
    """What says nothing is left out, false says something."""
    entity = {"name": "blue", "blocked": False, "models": None, "projects": [], "limits": {}, "model_limits": {"m": {}}}

    assert "name          blue\nblocked       no\nmodel limits  m=-\n" == card(entity)


def test_values_are_short() -> None:
    """Lists and limits on one line, fractions without zeros behind them."""
    assert ["a, b", "x=1, y=2.5", "yes", "0.000001", "3", "-"] == [
        text_of(value) for value in (["a", "b"], {"x": 1, "y": 2.5}, True, 1e-6, 3.0, None)
    ]


def test_nothing_moves_the_cursor() -> None:
    """Names may come from who knows where."""
    assert "?[31mred?" == text_of("\x1b[31mred\n")
