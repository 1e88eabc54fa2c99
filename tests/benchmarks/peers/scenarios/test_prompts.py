import json

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.peers.scenarios.prompts import Distinct, chat

DISTINCT = Distinct(1, 200)


def body(request: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(request.partition(b"\r\n\r\n")[2])
    return found


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_prompts_differ_and_are_of_one_length(one: int, other: int) -> None:
    texts = [str(body(DISTINCT(number))["messages"]) for number in (one, other)]

    assert (one == other) == (texts[0] == texts[1])
    assert {200} == {len(each["content"]) for each in json.loads(DISTINCT(one).partition(b"\r\n\r\n")[2])["messages"]}


def test_a_request_has_the_length_that_it_says() -> None:
    head, _, text = chat("What?", system="Ä", streams=True).partition(b"\r\n\r\n")

    assert f"content-length: {len(text)}".encode() in head
    assert [{"role": "system", "content": "Ä"}, {"role": "user", "content": "What?"}] == json.loads(text)["messages"]
    assert json.loads(text)["stream"] is True
    assert "stream" not in body(chat("What?"))
