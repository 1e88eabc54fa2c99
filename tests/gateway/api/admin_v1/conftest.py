"""An admin application for one test."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.api.admin_v1.administration import Administration, administration


@pytest.fixture
async def admin() -> AsyncIterator[Administration]:
    async with administration() as made:
        yield made
