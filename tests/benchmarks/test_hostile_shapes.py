import pytest

from benchmarks.hostile_shapes import SHAPES
from gateway.protocol.endpoints.table import ENDPOINTS


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_the_size_that_is_asked_for(name: str) -> None:
    """Never more, for that would be refused by the size alone, and little less."""
    shape = SHAPES[name]

    assert 99_000 < len(shape.make(100_000)) <= 100_000
    assert shape.path in ENDPOINTS
