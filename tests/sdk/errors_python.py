"""What clients in Python raise for the errors of a gateway: errors_python.py CASES. One line per check; exit status 1
if one fails. CASES is what `errors.refusing_gateway` yields.

The packages are those of .venv-sdk, so this file runs there alone and imports nothing of the gateway.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else prices of models are downloaded at the import

import langchain_openai
import litellm
import openai
from langchain_core.exceptions import ContextOverflowError

MOST_ASKED = 20
"""Requests until a limit refuses one."""

OPENAI: dict[str, tuple[type[Exception], int]] = {
    "wrong key": (openai.AuthenticationError, 401),
    "model not allowed": (openai.PermissionDeniedError, 403),
    "unknown model": (openai.NotFoundError, 404),
    "bad field": (openai.BadRequestError, 400),
    "body too large": (openai.APIStatusError, 413),
    "rate limit": (openai.RateLimitError, 429),
    "budget spent": (openai.RateLimitError, 429),
    "no worker": (openai.InternalServerError, 503),
    "context too long": (openai.BadRequestError, 400),
}
# For OpenAI's API, LiteLLM has no class of its own for 403, and takes 413 for a bad request.
LITELLM: dict[str, tuple[type[Exception], int]] = {
    "wrong key": (litellm.AuthenticationError, 401),
    "model not allowed": (litellm.APIError, 403),
    "unknown model": (litellm.NotFoundError, 404),
    "bad field": (litellm.BadRequestError, 400),
    "body too large": (litellm.BadRequestError, 413),
    "rate limit": (litellm.RateLimitError, 429),
    "budget spent": (litellm.RateLimitError, 429),
    "no worker": (litellm.ServiceUnavailableError, 503),
    "context too long": (litellm.ContextWindowExceededError, 400),
}
LANGCHAIN = OPENAI | {"context too long": (ContextOverflowError, 400)}

Case = dict[str, Any]


def messages(case: Case) -> list[Any]:
    return [{"role": "user", "content": "word " * case["words"]}]


def ask_openai(base_url: str, case: Case) -> None:
    client = openai.OpenAI(base_url=base_url, api_key=case["key"], max_retries=0)
    client.chat.completions.create(model=case["model"], messages=messages(case), max_tokens=8, extra_body=case["extra"])


def ask_litellm(base_url: str, case: Case) -> None:
    litellm.completion(
        model=f"openai/{case['model']}",
        messages=messages(case),
        api_base=base_url,
        api_key=case["key"],
        max_tokens=8,
        max_retries=0,
        num_retries=0,
        extra_body=case["extra"],
    )


def ask_langchain(base_url: str, case: Case) -> None:
    langchain_openai.ChatOpenAI(
        model=case["model"],
        base_url=base_url,
        api_key=case["key"],
        max_retries=0,
        max_tokens=8,
        extra_body=case["extra"] or None,
    ).invoke("word " * case["words"])


def refusal(ask: Callable[[str, Case], None], base_url: str, case: Case) -> Exception:
    for _ in range(MOST_ASKED):
        try:
            ask(base_url, case)
        except Exception as error:  # noqa: BLE001 - its class is what is looked at
            return error
    raise AssertionError(f"{MOST_ASKED} requests were answered")


CLIENTS = {
    "openai": (ask_openai, OPENAI),
    "litellm": (ask_litellm, LITELLM),
    "langchain": (ask_langchain, LANGCHAIN),
}


def main() -> int:
    given = json.loads(sys.argv[1])
    litellm.suppress_debug_info = True
    failed = 0
    for client, (ask, table) in CLIENTS.items():
        for name, (expected, status) in table.items():
            case = given["cases"].get(name) or given["cases"][f"{name} ({client})"]
            raised = refusal(ask, given["base_url"], case)
            got = getattr(raised, "status_code", None)
            # The class itself, or one that the client derives from it for this very error.
            is_right = isinstance(raised, expected) and got == status
            failed += not is_right
            said = (
                ""
                if is_right
                else f": {type(raised).__name__} with {got}, not {expected.__name__} with {status}: {raised}"
            )
            sys.stdout.write(
                f"{'ok   ' if is_right else 'FAIL '} {client}: {name}{said}\n".replace("\n", " ").rstrip() + "\n"
            )
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
