"""What is distributed: the license, the notice of other authors' packages, and the metadata of the project."""

import re
import tomllib
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.notice import NoticeError, license_of, locked, notice
from documentation.staging import REPOSITORY

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


def metadata(**fields: list[str]) -> Message:
    message = Message()
    message["Name"] = "sample"
    for name, values in fields.items():
        for value in values:
            message[name.replace("_", "-")] = value
    return message


def test_the_license_is_the_apache_license() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")

    assert "Apache-2.0" == project()["license"]
    assert ["Apache License", "Version 2.0, January 2004"] == [line.strip() for line in text.splitlines()[1:3]]


def test_the_wheel_and_the_image_contain_the_license_and_the_notice() -> None:
    copied = re.findall(r"^COPY (.+) \./$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)

    assert ["LICENSE", "NOTICE"] == project()["license-files"]
    assert {"LICENSE", "NOTICE"} <= set(" ".join(copied).split())


def test_the_notice_names_each_package_of_the_image() -> None:
    """`python -m deploy.notice` writes it from the lock."""
    text = (ROOT / "NOTICE").read_text(encoding="utf-8")
    named = re.findall(r"^([\w.-]+) (\S+): \S", text, re.MULTILINE)

    assert len(named) > 40
    assert locked(LOCK) == named


def test_the_notice_is_the_one_that_the_installed_packages_give() -> None:
    assert notice(LOCK) == (ROOT / "NOTICE").read_text(encoding="utf-8")


def test_the_notice_passes_on_the_notices_of_others() -> None:
    """The Apache License asks for that."""
    text = (ROOT / "NOTICE").read_text(encoding="utf-8")

    assert "Notice of botocore:\n\nBotocore\nCopyright 2012-2022 Amazon.com" in text


@pytest.mark.parametrize(
    ("fields", "license_name"),
    [
        ({"License_Expression": ["MIT"], "License": ["other"]}, "MIT"),
        ({"License": ["BSD-3-Clause"]}, "BSD-3-Clause"),
        ({"License": ["Copyright 2020\nAll rights"], "Classifier": ["License :: OSI Approved :: ISC"]}, "ISC"),
        ({"Classifier": [f"License :: OSI Approved :: {name}" for name in ("BSD", "MIT")]}, "BSD or MIT"),
    ],
)
def test_a_license_is_read_from_the_metadata(fields: dict[str, list[str]], license_name: str) -> None:
    assert license_name == license_of(metadata(**fields))


def test_a_package_without_license_is_refused() -> None:
    with pytest.raises(NoticeError, match="sample names no license"):
        license_of(metadata())


def test_a_package_in_another_version_is_refused() -> None:
    with pytest.raises(NoticeError, match=r"The lock has six 0\.1"):
        notice("six==0.1 \\\n    --hash=sha256:0\n")


def test_every_project_address_is_one_of_the_repository() -> None:
    addresses = project()["urls"].values()

    assert [] == [address for address in addresses if not address.startswith(REPOSITORY)]


def test_the_project_may_be_uploaded() -> None:
    assert [] == [line for line in project()["classifiers"] if line.startswith(("Private", "License"))]


def test_the_chart_and_the_changelog_have_the_version_of_the_project() -> None:
    chart = yaml.safe_load((ROOT / "deploy/helm/warmgate/Chart.yaml").read_text(encoding="utf-8"))
    sections = re.findall(r"^## \[(\d\S*)\] - \d{4}-\d{2}-\d{2}$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = project()["version"]

    assert (version, version) == (chart["version"], chart["appVersion"])
    assert version == sections[0]
    assert f"| {version.rpartition('.')[0]} | yes |" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
