"""Program of `helm test`: check that the gateway at GATEWAY is ready, and answers a completion if KEY is set."""

import json
import os
import sys
import urllib.error
import urllib.request

PATIENCE_S = 120


def asked(path: str, body: object = None) -> tuple[int, str]:
    """Return status and text of the answer. The request is a POST if *body* is given."""
    headers = {"content-type": "application/json"}
    if os.environ.get("KEY"):
        headers["authorization"] = f"Bearer {os.environ['KEY']}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["GATEWAY"] + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def main() -> int:
    status, text = asked("/readyz")
    print("/readyz", status, text)
    if status != 200:
        return 1
    chat = {
        "model": os.environ["MODEL"],
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "Say one word."}],
    }
    status, text = asked("/v1/chat/completions", chat)
    print("/v1/chat/completions", status, text[:1000])
    if os.environ.get("KEY"):
        return 0 if status == 200 and json.loads(text)["choices"] else 1
    # Without a key it is to be refused, in OpenAI's shape: the gateway is no open one.
    return 0 if status == 401 and json.loads(text)["error"]["code"] == "invalid_api_key" else 1


sys.exit(main())
