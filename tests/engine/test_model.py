"""The seeded model: what the other tests may conclude from its answers."""

from openai import OpenAI

from tests.engine.examples import STORY, chat


def answer(openai: OpenAI, text: str) -> str:
    """Twenty tokens, greedily."""
    return str(openai.chat.completions.create(**chat(text)).choices[0].message.content)


def test_an_early_token_changes_the_answer(openai: OpenAI) -> None:
    """Long prompts that differ in their first word have different answers: a lost or mixed-up prompt would show."""
    towns = ("Paris", "London", "Berlin", "Vienna", "Prague")

    assert len(towns) == len({answer(openai, f"{town}. {STORY}") for town in towns})


def test_greedy_answers_repeat(openai: OpenAI) -> None:
    """Computed or from the cache: the same tokens."""
    first = answer(openai, f"Rome. {STORY}")

    assert first
    assert [first] * 3 == [answer(openai, f"Rome. {STORY}") for _ in range(3)]


def test_engines_agree(openai: OpenAI) -> None:
    to_each_in_turn = {"x-warmgate-strategy": "round_robin"}
    replies = [
        openai.chat.completions.with_raw_response.create(**chat(f"Oslo. {STORY}"), extra_headers=to_each_in_turn)
        for _ in range(4)
    ]

    assert 2 == len({reply.headers["x-warmgate-worker"] for reply in replies})
    assert 1 == len({reply.parse().choices[0].message.content for reply in replies})
