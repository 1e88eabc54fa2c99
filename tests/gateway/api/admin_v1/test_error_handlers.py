"""Facts about whatever goes wrong, in OpenAI's shape."""

import pytest

from tests.gateway.api.admin_v1.administration import Administration, fault, message


@pytest.mark.parametrize("path", ["/admin/v1/nothing", "/admin/v1/teams/", "/admin/v1", "/admin/v1/teams/a/b", "/"])
async def test_a_path_that_there_is_not(admin: Administration, path: str) -> None:
    async with admin.client() as client:
        response = await client.get(path)

    assert (404, "unknown_url", None) == fault(response)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/teams", "GET, POST"),
        ("POST", "/teams/blue", "DELETE, GET, PATCH, PUT"),
        ("GET", "/keys/ci/rotate", "POST"),
        ("POST", "/usage", "GET"),
    ],
)
async def test_a_method_that_there_is_not_is_reported_which_ones_there_are(
    admin: Administration, method: str, path: str, allowed: str
) -> None:
    response = await admin.ask(method, path)

    assert (405, "method_not_allowed", None) == fault(response)
    assert allowed == response.headers["allow"]


@pytest.mark.parametrize(
    ("path", "param", "says"),
    [
        ("/teams?lim=5", "lim", "did you mean 'limit'"),
        ("/teams?limit=0", "limit", "greater than or equal to 1"),
        ("/teams?limit=1001", "limit", "less than or equal to 1000"),
        ("/teams?limit=ten", "limit", "valid integer"),
        ("/usage?tem=blue", "tem", "did you mean 'team'"),
        ("/usage/export?format=xlsx", "format", "'csv' or 'jsonl'"),
    ],
)
async def test_a_query_that_is_wrong_names_the_parameter(
    admin: Administration, path: str, param: str, says: str
) -> None:
    """A filter with a slip of the pen would show everybody's."""
    response = await admin.ask("GET", path)

    assert (400, None, param) == fault(response)
    assert says in message(response)


async def test_a_store_that_is_away_is_reported_as_such(admin: Administration) -> None:
    await admin.file.run(lambda connection: connection.execute("DROP TABLE directory_teams"))
    response = await admin.ask("GET", "/teams")

    assert (503, "store_unavailable", None) == fault(response)


async def test_what_no_one_foresaw_says_nothing_of_itself(admin: Administration) -> None:
    admin.api.state.parts = None
    response = await admin.ask("GET", "/teams")

    assert (500, "internal_error", None) == fault(response)
    assert "The gateway failed to serve this request" == message(response)
