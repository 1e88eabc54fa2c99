"""What the schemas of Kubernetes, and of the operators beside it, have against a manifest."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.deploy.environment import NODE_PROJECT

Manifest = dict[str, Any]

VERSIONS = ("1.30", "1.32", "1.34", "1.37")
SCRIPT = Path(__file__).parent / "schemas.mjs"
OF_KUBERNETES = frozenset(
    {"v1", "apps", "autoscaling", "batch", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"}
)
WITHOUT_SCHEMA = frozenset(
    {"eks.amazonaws.com", "inference.networking.k8s.io", "leaderworkerset.x-k8s.io", "nvidia.com", "ray.io"}
)
"""Groups whose schemas no one offers in a registry of packages: looked at by tests of their own."""


class Refused(AssertionError):
    """A schema has something against a manifest, or could not be asked."""


def group_of(manifest: Manifest) -> str:
    return str(manifest["apiVersion"]).partition("/")[0]


def check(manifests: Sequence[Manifest], version: str) -> None:
    """Hold those of Kubernetes itself against the schemas of *version*; unknown fields are faults.

    Raises:
        ValidationError: with the place and the reason.
    """
    for manifest in manifests:
        if group_of(manifest) in OF_KUBERNETES:
            kubernetes_validate.validate(manifest, version, strict=True)


def check_others(manifests: Sequence[Manifest]) -> None:
    """Hold those of operators against the schemas in npm packages; skips where node is missing.

    Raises:
        Refused: with what was found; or there is no such schema.
    """
    others = [each for each in manifests if group_of(each) not in OF_KUBERNETES | WITHOUT_SCHEMA]
    if not others:
        return
    node = shutil.which("node")
    if node is None or not (NODE_PROJECT / "node_modules").is_dir():
        pytest.skip("node or npm is missing")
    reported = subprocess.run(
        [node, "--input-type=module", "--eval", SCRIPT.read_text(encoding="utf-8")],
        cwd=NODE_PROJECT,
        input=json.dumps(others),
        capture_output=True,
        check=False,
        text=True,
    )
    if reported.returncode:
        raise Refused(reported.stderr)
    if faults := json.loads(reported.stdout):
        raise Refused("\n".join(f"{what}: {why}" for what, why in faults))
