"""What every group of settings has in common."""

import pytest
from pydantic import ValidationError

from gateway.protocol.field_types import Group


class Door(Group):
    width_s: float = 1.0


def test_a_group_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Door().width_s = 2.0


@pytest.mark.parametrize("given", [{"widht_s": 1.0}, {"width_s": "1"}, {"width_s": float("nan")}])
def test_a_group_takes_nothing_for_something_else(given: dict[str, object]) -> None:
    """No message shows the value, which may be a secret."""
    with pytest.raises(ValidationError) as caught:
        Door.model_validate(given)

    assert "input_value" not in str(caught.value)
