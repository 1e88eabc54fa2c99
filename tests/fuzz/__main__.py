"""`python -m tests.fuzz`: start the demo, and let schemathesis try out all that it describes: `/openapi.json`, for
callers, and `/admin/v1/openapi.json`, for administrators.

Needs the extra `fuzz`. Exit status 1 if an answer is a 500, or not as described.
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

DEMO = (sys.executable, "-m", "gateway", "demo", "--port", "0", "--workers", "2")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
EXAMPLES = 100
"""Per operation and kind of data."""
SLOWEST_S = 10
"""A worker of the demo may be busy with the examples before; beyond this an answer hangs."""


TEAMS, KEYS = ["blue", "red"], ["ci", "other"]
"""Names that the examples for administrators use, so that some of them find what others have made."""


@contextlib.contextmanager
def demo(secret: str) -> Iterator[str]:
    """The demo on a free port; yields its address. *secret* opens everything: as a key and as an admin key."""
    # Without a line per request, which would fill the pipe: no one reads it once the address is known.
    settings = {
        "WARMGATE_LOGGING__REQUESTS": "false",
        "WARMGATE_TEAMS__0__KEYS__0__SECRET": secret,
        "WARMGATE_ADMIN__KEYS__0__SECRET": secret,
    }
    with subprocess.Popen(DEMO, env={**os.environ, **settings}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ready: "):
                    yield line.removeprefix("ready: ").strip()
                    return
            raise RuntimeError("the demo ended before it was ready; its error is above")
        finally:
            process.terminate()
            process.communicate()


def description_at(url: str) -> Json:
    with urllib.request.urlopen(url) as answer:
        document: Json = json.load(answer)
        return document


def for_callers(document: Json) -> Json:
    """*document* with the model of the demo for a model: most examples would else end at its name."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                fields = media["schema"].get("properties", {})
                if "model" in fields:
                    fields["model"] = {"enum": ["tiny"]}
    return document


def for_administrators(document: Json) -> Json:
    """*document* with few names of teams and keys: most examples would else end at one that there is not."""
    names = {"name": TEAMS, "team": TEAMS, "key_id": KEYS, "id": KEYS}
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = {"enum": names[parameter["name"]]}
    schemas = document["components"]["schemas"]
    for body, field in (("TeamBody", "name"), ("KeyBody", "team"), ("KeyBody", "id")):
        schemas[body]["properties"][field] = {"enum": names[field]}
    return document


def run(document: Json, address: str, secret: str, folder: Path, *options: str) -> int:
    """The exit status of schemathesis, with *options*, on the API at *address* as *document* describes it."""
    description = folder / "openapi.json"
    description.write_text(json.dumps(document), encoding="utf-8")
    command: list[str | Path] = [
        *(Path(sys.executable).with_name("schemathesis"), "run", description, "--url", address),
        *("--checks", ",".join(CHECKS), "--header", f"authorization: Bearer {secret}"),
        *("--max-examples", str(EXAMPLES), "--max-response-time", str(SLOWEST_S), "--continue-on-failure"),
        *options,
    ]
    return subprocess.run(command, cwd=folder, check=False).returncode


def main() -> int:
    secret = secrets.token_hex(16)
    with demo(secret) as address, tempfile.TemporaryDirectory() as folder:
        callers, administrators = (description_at(f"{address}{path}/openapi.json") for path in ("", "/admin/v1"))
        statuses = [
            run(for_callers(callers), address, secret, Path(folder)),
            run(administrators, address, secret, Path(folder)),
            # With few names nothing else may be taken for wrong: another name is right all the same.
            run(for_administrators(administrators), address, secret, Path(folder), "--mode", "positive"),
        ]
        return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
