"""Configurations that cannot be used: `check` and `serve` refuse them with the same sentence."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

MODEL = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}
SECRET = "s-e-c-r-e-t"  # of no one
KEY = {"id": "ci", "secret": SECRET}
OWNER = {"id": "ann", "role": "owner", "secret": SECRET}
WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("botocore", "opentelemetry.proto", "phonenumbers", "re2"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
"""A `sitecustomize` by which no extra is installed."""

FAULTS: list[tuple[dict[str, Any], str]] = [
    (
        {"teams": [{"name": "blue", "keys": [KEY, KEY | {"id": "cd"}]}]},
        "teams: the keys 'ci' and 'cd' have the same secret. Give each key a different secret.",
    ),
    (
        {"admin": {"keys": [OWNER, OWNER | {"id": "bob", "role": "viewer"}]}},
        "admin.keys: the admin key 'ann' and the admin key 'bob' have the same secret. "
        "Give each key a different secret.",
    ),
    (
        {"teams": [{"name": "blue", "keys": [KEY]}], "admin": {"keys": [OWNER]}},
        "admin.keys: the key 'ci' of the team 'blue' and the admin key 'ann' have the same secret. "
        "Give each key a different secret.",
    ),
    (
        {"server": {"port": 18999, "host": "0.0.0.0"}, "admin": {"port": 18999, "host": "127.0.0.1"}},
        "admin.port and server.port both use port 18999. Set them to different ports.",
    ),
    (
        {"server": {"port": 18999, "probes_port": 18999}},
        "server.probes_port and server.port both use port 18999. Set them to different ports.",
    ),
    (
        {"server": {"port": 18999}, "kv_events": {"bind": "tcp://127.0.0.1:18999"}},
        "kv_events.bind and server.port both use port 18999. Set them to different ports.",
    ),
    (
        {"store": {"url": "sqlite:////nowhere/warmgate.db"}},
        "store.url names a file in /nowhere, which is not a folder.",
    ),
    ({"store": {"url": "sqlite:////"}}, "store.url names /, which is a folder; it must be a file."),
    (
        {"store": {"url": "redis://:hidden@127.0.0.1:1/0?colour=red"}},
        "store.url has an unknown option or an invalid value. Correct its query string.",
    ),
    (
        {"teams": [{"name": "blue", "model_limits": {"tinny": {"max_concurrent_requests": 1}}}]},
        "teams[0].model_limits names 'tinny', which is not the name of a model (aliases are not allowed).",
    ),
    (
        {"teams": [{"name": "blue", "keys": [KEY | {"model_limits": {"tinny": {"max_concurrent_requests": 1}}}]}]},
        "teams[0].keys[0].model_limits names 'tinny', which is not the name of a model (aliases are not allowed).",
    ),
    (
        {"models": [MODEL | {"tokenizer": {"path": "/nowhere", "source": "local"}}]},
        "models[0].tokenizer.path names /nowhere, which is not a folder.",
    ),
    (
        {"server": {"implementation": "granian"}},
        "server.implementation is 'granian'; this setting was removed: the gateway serves with uvicorn only. "
        "Remove it.",
    ),
    ({"models": [{"name": "tiny", "workers_file": "bad.yaml"}]}, "bad.yaml must hold a list of workers"),
    ({"guardrails": [{"name": "g", "kind": "words", "patterns": ["("]}]}, "guardrails[0]: "),
]
MISSING: list[tuple[dict[str, Any], str]] = [
    (
        {"models": [MODEL | {"bedrock": {"model_id": "m"}}], "bedrock": {"region": "us-east-1"}},
        "models[0], which has a fallback on Bedrock, needs the extra warmgate[bedrock], which is not installed.",
    ),
    (
        {"guardrails": [{"name": "g", "kind": "bedrock", "guardrail_id": "x", "region": "us-east-1"}]},
        "guardrails[0] needs the extra warmgate[bedrock], which is not installed.",
    ),
    (
        {"tracing": {"endpoint": "http://127.0.0.1:1"}},
        "tracing.endpoint needs the extra warmgate[otel], which is not installed.",
    ),
    (
        {"guardrails": [{"name": "g", "kind": "pii", "phone_regions": ["DE"]}]},
        "guardrails[0]: phone_regions requires phonenumbers. Install warmgate[guardrails].",
    ),
    (
        {"guardrails": [{"name": "g", "kind": "words", "patterns": ["a{1,3}"]}]},
        "guardrails[0]: Guardrail patterns require google-re2. Install warmgate[guardrails].",
    ),
]


def refused(command: str, folder: Path, groups: dict[str, Any], **variables: str) -> str:
    """What *command* says on stderr of settings with *groups*, refusing them."""
    config = folder / "warmgate.yaml"
    server = {"port": 0, **groups.get("server", {})}
    config.write_text(yaml.safe_dump({"models": [MODEL], **groups, "server": server}))
    ran = subprocess.run(
        [sys.executable, "-m", "gateway", command, "--config", str(config)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*variables.values(), str(Path.cwd())])},
        capture_output=True,
        check=False,
        text=True,
        timeout=180,
    )
    assert (2, "") == (ran.returncode, ran.stdout), ran.stderr
    return ran.stderr


@pytest.mark.parametrize(("groups", "sentence"), FAULTS)
def test_both_refuse_it_with_the_same_sentence(tmp_path: Path, groups: dict[str, Any], sentence: str) -> None:
    """One line, which names the setting and no secret."""
    (tmp_path / "bad.yaml").write_text("url: http://a\n")
    checked, served = (refused(command, tmp_path, groups) for command in ("check", "serve"))

    assert checked == served
    assert checked.startswith(sentence)
    assert 1 == len(checked.splitlines())
    assert SECRET not in checked
    assert "hidden" not in checked


@pytest.mark.parametrize(("groups", "sentence"), MISSING)
def test_an_extra_that_is_missing_is_one_sentence(tmp_path: Path, groups: dict[str, Any], sentence: str) -> None:
    """Without a traceback."""
    shadow = tmp_path / "predicted"
    shadow.mkdir()
    (shadow / "sitecustomize.py").write_text(WITHOUT_EXTRAS)
    checked, served = (refused(command, tmp_path, groups, path=str(shadow)) for command in ("check", "serve"))

    assert f"{sentence}\n" == checked == served
