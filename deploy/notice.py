"""`python -m deploy.notice`: write NOTICE, which lists third-party packages in the image with their licenses.

The packages are those of deploy/requirements.lock. Their licenses come from the metadata of the installed packages, so
run this in an environment that has all of them in the versions of the lock, such as that of `make test`.
"""

import importlib.metadata
import re
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "deploy" / "requirements.lock"
NOTICE = ROOT / "NOTICE"

HEAD = """Warmgate
Copyright 2026 The Warmgate authors

Warmgate is licensed under the Apache License, Version 2.0: see the file LICENSE.

The wheel of Warmgate contains no code of others. It installs packages of others as dependencies. The image of the
gateway contains the packages below. Each package is the work of its authors and has its own license. The texts of the
licenses are in the image, in the folders /opt/warmgate/lib/python3.13/site-packages/NAME-VERSION.dist-info.
The image build removes huggingface-hub and hf-xet again.

The package fastapi-swagger contains Swagger UI, which is licensed under the Apache License, Version 2.0.

Made by `python -m deploy.notice` from deploy/requirements.lock.
"""
CLASSIFIER = "License :: OSI Approved :: "
LONGEST_NAME = 60
"""Maximum characters of a license name in the field License. A longer field contains the text of a license."""


class NoticeError(Exception):
    """Error for a NOTICE file that cannot be written. The message contains the reason."""


def locked(lock: str) -> list[tuple[str, str]]:
    """Return name and version of each package in the lock file *lock*, in the same order."""
    return re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)


def license_of(metadata: Message) -> str:
    """Return the license that the *metadata* of a package names.

    An SPDX expression comes first, then a short field License, then the classifiers.

    Raises:
        NoticeError: if none of them names a license.
    """
    expression, field = metadata.get("License-Expression"), (metadata.get("License") or "").strip()
    if expression:
        return str(expression)
    if field and len(field) <= LONGEST_NAME and "\n" not in field and field != "Dual License":
        return field
    classifiers = [str(line) for line in metadata.get_all("Classifier", []) if str(line).startswith(CLASSIFIER)]
    if not classifiers:
        raise NoticeError(f"The package {metadata['Name']} names no license.")
    return " or ".join(line.removeprefix(CLASSIFIER) for line in classifiers)


def notices(package: importlib.metadata.Distribution) -> Iterator[str]:
    """Yield the texts of the NOTICE files of *package*. The Apache License asks to pass them on."""
    for path in package.files or []:
        if path.name.upper() in {"NOTICE", "NOTICE.TXT", "NOTICE.MD"} and ".dist-info" in str(path):
            yield path.read_text(encoding="utf-8").strip()


def notice(lock: str) -> str:
    """Return the text of NOTICE for the packages in the lock file *lock*.

    Raises:
        NoticeError: if a package is not installed in the version of the lock, or names no license.
    """
    lines, texts = [], []
    for name, version in locked(lock):
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise NoticeError(f"The package {name} is not installed. Run `make test` first.") from error
        if package.version != version:
            raise NoticeError(f"The lock has {name} {version}, but {package.version} is installed.")
        lines.append(f"{name} {version}: {license_of(package.metadata)}")
        texts += [f"Notice of {name}:\n\n{text}" for text in notices(package)]
    return "\n".join([HEAD, *lines, "", *(f"{'-' * 80}\n{text}\n" for text in texts)])


if __name__ == "__main__":
    NOTICE.write_text(notice(LOCK.read_text(encoding="utf-8")), encoding="utf-8")
