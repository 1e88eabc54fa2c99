"""What the tests ask, as arguments of the SDK: a test names what matters and nothing else."""

from typing import Any

from tests.engine.stack import MODEL

STORY = " ".join(f"On day {day} the traveller asked for a seat at the window." for day in range(1, 40))
"""Some 600 tokens: enough blocks to be found in a cache."""

WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string", "enum": ["Paris", "London"]}},
            "required": ["town"],
            "additionalProperties": False,
        },
    },
}
"""Its argument is one of two words: the model would never end a free one."""


def chat(text: str = STORY, **more: Any) -> dict[str, Any]:
    """Arguments of `chat.completions.create` for a short greedy answer."""
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 20,
        **more,
    }
