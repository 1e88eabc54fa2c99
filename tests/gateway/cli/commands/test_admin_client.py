import re
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from gateway.cli.commands.admin_client import AdminClient
from gateway.cli.commands.output import CommandFailed


def client(answer: Callable[[httpx.Request], httpx.Response]) -> AdminClient:
    return AdminClient(httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://gateway:8081"))


def refusing(status: int, content: bytes) -> AdminClient:
    return client(lambda _: httpx.Response(status, content=content))


def error(message: str) -> bytes:
    return b'{"error": {"message": "%s", "type": "t", "param": null, "code": null}}' % message.encode()


async def test_names_are_parts_of_the_path() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url}")
        return httpx.Response(200, json={})

    await client(answer).get("teams", "a/../b?c", query={"said": 1, "not": None})

    assert ["GET http://gateway:8081/admin/v1/teams/a%2F..%2Fb%3Fc?said=1"] == asked


async def test_a_list_is_read_to_its_end() -> None:
    """Page by page, from where the last one ended."""
    pages = {None: ([1, 2], "b"), "b": ([3, 4], "d"), "d": ([5], None)}
    asked: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        data, following = pages[request.url.params.get("after")]
        return httpx.Response(200, json={"data": data, "next": following})

    listed: list[object] = [*await client(answer).listed("teams", query={"team": "blue"})]

    assert [1, 2, 3, 4, 5] == listed
    assert [
        {"team": "blue", "limit": "500"},
        {"team": "blue", "limit": "500", "after": "b"},
        {"team": "blue", "limit": "500", "after": "d"},
    ] == asked


async def test_a_list_can_be_cut_short() -> None:
    """No more is asked for than is wanted."""
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        limit = int(request.url.params["limit"])
        asked.append(limit)
        return httpx.Response(200, json={"data": [0] * limit, "next": "more"})

    assert 700 == len(await client(answer).listed("audit", most=700))
    assert [500, 200] == asked


@pytest.mark.parametrize(
    ("status", "code"), [(400, 2), (401, 1), (403, 1), (404, 1), (409, 1), (429, 1), (500, 1), (503, 1)]
)
async def test_a_refusal_is_its_message(status: int, code: int) -> None:
    with pytest.raises(CommandFailed, match=r"^It is so\.$") as raised:
        await refusing(status, error("It is so")).get("teams")

    assert code == raised.value.code


async def test_a_port_without_the_admin_api_is_named() -> None:
    """The gateway answers so on its public port if the admin API has a port of its own."""
    content = error("GET /admin/v1/diagnosis is not served here").replace(b'"code": null', b'"code": "unknown_url"')
    said = (
        "http://gateway:8081: GET /admin/v1/diagnosis is not served here. "
        "If admin.port is set, use the address with that port."
    )
    with pytest.raises(CommandFailed, match=f"^{re.escape(said)}$"):
        await refusing(404, content).get("diagnosis")


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (502, b"<html>\n\x1b[31mBad Gateway</html>", "502 <html>  [31mBad Gateway</html>."),
        (404, b'{"detail": "Not Found"}', '404 {"detail": "Not Found"}.'),
        (404, b'{"error": "no"}', '404 {"error": "no"}.'),
        (503, b"", "503."),
        (200, b"<html>", "200 <html>."),
        (200, b"[]", "200 []."),
        (500, b"x" * 1000, f"500 {'x' * 300}."),
    ],
)
async def test_an_answer_of_something_else_is_shown(status: int, content: bytes, said: str) -> None:
    """The beginning of it, and nothing that moves the cursor."""
    with pytest.raises(
        CommandFailed, match=f"^{re.escape(f'The server that answered is not Warmgate: status {said}')}$"
    ):
        await refusing(status, content).get("teams")


async def test_what_is_deleted_has_no_answer() -> None:
    """204."""
    await refusing(204, b"").delete("teams", "blue")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (httpx.ConnectError("refused"), "http://gateway:8081 cannot be reached: refused."),
        (httpx.RemoteProtocolError(""), "http://gateway:8081 cannot be reached: RemoteProtocolError."),
        (httpx.ReadTimeout("late"), "http://gateway:8081 did not answer in time."),
    ],
)
async def test_no_one_there_is_said_with_the_place(fault: httpx.RequestError, said: str) -> None:
    """For a question, and for an answer in pieces."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise fault

    with pytest.raises(CommandFailed, match=f"^{re.escape(said)}$"):
        await client(answer).get("teams")
    with pytest.raises(CommandFailed, match=f"^{re.escape(said)}$"):
        await whole(client(answer).pieces("usage", "export", query={}))


async def test_an_answer_may_come_in_pieces() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"a,b\r\n"
        yield b"1,2\r\n"

    assert b"a,b\r\n1,2\r\n" == await whole(
        client(lambda _: httpx.Response(200, content=body())).pieces("usage", "export", query={"format": "csv"})
    )


async def test_an_answer_in_pieces_may_be_a_refusal() -> None:
    """Nothing of it is taken for the answer."""
    with pytest.raises(CommandFailed, match=r"^'to' is before 'from'\.$"):
        await whole(refusing(400, error("'to' is before 'from'.")).pieces("usage", "export", query={}))


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])
