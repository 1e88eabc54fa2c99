"""The programs that files of deploy/ are checked with, and the outcome of a test where one is missing.

hadolint is in the environment of `tests/deploy/environment.py`; promtool comes with Debian's Prometheus. Terraform and
a local mirror of its AWS provider are taken where they are. A test that misses one of them is skipped, or fails where
DEPLOY_TOOLS=required.
"""

import os
import shutil
from typing import NoReturn

import pytest

from tests.deploy.environment import BIN


def missing(what: str) -> NoReturn:
    """Skip the test for lack of *what*, or fail it where everything has to be there."""
    if os.environ.get("DEPLOY_TOOLS") == "required":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


def tool(name: str) -> str:
    """The path of a program, of the environment or of the machine; without it the test is skipped."""
    found = shutil.which(name, path=f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if found is None:
        missing(name)
    return found
