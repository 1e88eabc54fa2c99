"""The Dockerfile and the locks that the image is built from. `make image-test` builds and runs it."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.deploy.tools import tool
from tests.image.environment import PYTHON, RELEASE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = ROOT / "Dockerfile"
LOCKS = ("requirements.lock", "requirements-build.lock")
DIGEST = f"sha256:{'0123456789abcdef' * 4}"

each_lock = pytest.mark.parametrize("name", LOCKS)


def normal(package: str) -> str:
    """The name of a package as all its spellings have it, PEP 503."""
    return re.sub(r"[-_.]+", "-", package).lower()


def constraints() -> dict[str, str]:
    """Version by name."""
    lines = (DEPLOY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = (line.partition("==") for line in lines if line.strip() and not line.startswith("#"))
    return {normal(name): version for name, _, version in pinned}


def locked(name: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name, version and digests of every package of a lock."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    for entry in re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines():
        pin, *options = entry.split()
        package, _, version = pin.partition("==")
        yield normal(package), version, options


def asked_for(*extras: str) -> set[str]:
    """What pyproject.toml asks for at run time (with no *extras*), or in these."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    asked = [name for extra in extras for name in project["optional-dependencies"][extra]]
    # A dependency may be bound to versions of Python.
    return {normal(name.partition(";")[0]) for name in (asked if extras else project["dependencies"])}


def stage(name: str) -> str:
    """The lines of a stage of the Dockerfile after its FROM."""
    begin = re.search(rf"^FROM \S+ AS {name}\n", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert begin is not None
    return begin.string[begin.end() :].partition("\nFROM ")[0]


def test_hadolint_has_nothing_against_it() -> None:
    """Warnings included."""
    ran = subprocess.run(
        [tool("hadolint"), "--failure-threshold", "info", DOCKERFILE], capture_output=True, check=False, text=True
    )

    assert "" == ran.stdout
    assert 0 == ran.returncode, ran.stderr


@each_lock
def test_a_lock_has_the_versions_of_the_constraints(name: str) -> None:
    """`python deploy/lock.py` makes it again; what is tested is what is shipped."""
    versions = constraints()

    assert {package: version for package, version, _ in locked(name)} == {
        package: versions.get(package) for package, _, _ in locked(name)
    }


@each_lock
def test_every_package_has_digests_and_no_address(name: str) -> None:
    """A wheel is known by what it is, not by where it comes from."""
    assert [] == [
        (package, option)
        for package, _, options in locked(name)
        for option in options or ["none"]
        if not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", option)
    ]


def test_the_image_has_what_a_gateway_can_be_asked_to_use() -> None:
    """Bedrock and exact tokens too."""
    wanted = asked_for() | asked_for("bedrock") | asked_for("tokenizer")

    assert set() == wanted - {package for package, _, _ in locked("requirements.lock")}


def test_what_builds_it_is_locked() -> None:
    """The compiler of the core is a package like the others."""
    assert set() == asked_for("compile") - {package for package, _, _ in locked("requirements-build.lock")}


def test_compiled_wheels_are_there_for_both_kinds_of_nodes() -> None:
    """Intel and AMD, and Graviton: a compiled package has a wheel for each."""
    digests = {package: len(options) for package, _, options in locked("requirements.lock")}

    assert {"uvloop": 2, "numpy": 2, "httptools": 2, "pyzmq": 2} == {
        package: digests[package] for package in ("uvloop", "numpy", "httptools", "pyzmq")
    }


def test_every_installation_is_by_digest() -> None:
    """What pip installs is in a lock, or is our own wheel from the line above."""
    commands = re.split(r"&&|\n", DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " "))
    installs = [each for each in commands if re.search(r"-m pip (--python \S+ )?(install|wheel) ", each)]

    assert 4 == len(installs)
    assert [] == [each for each in installs if "--require-hashes" not in each and "--no-index" not in each]


def workflow() -> dict[str, Any]:
    """The workflow of a release."""
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    return found


def workflow_steps(job: str) -> list[dict[str, Any]]:
    """The steps of a *job* of the workflow."""
    steps: list[dict[str, Any]] = workflow()["jobs"][job]["steps"]
    return steps


def release_steps() -> tuple[dict[str, Any], dict[str, Any]]:
    """The steps of a release that look up the base images, and that build from them."""
    steps = workflow_steps("image")
    look_up = next(step for step in steps if step.get("id") == "bases")
    return look_up, next(step for step in steps if "docker build " in step.get("run", ""))


@dataclass(frozen=True, slots=True)
class Ran:
    """A step of a release, after it was run as GitHub runs it."""

    status: int
    said: str
    outputs: dict[str, str]
    docker: list[str]


def run_step(folder: Path, step: dict[str, Any], answer: str, **variables: str) -> Ran:
    """Run *step* before a docker that says *answer* to everything."""
    asked, outputs = folder / "asked", folder / "outputs"
    docker = folder / "docker"
    docker.write_text(f"#!/bin/sh\necho \"$*\" >> {asked}\necho '{answer}'\n", encoding="utf-8")
    docker.chmod(0o755)
    for file in (asked, outputs):
        file.touch()
    ran = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        env={"PATH": f"{folder}{os.pathsep}{os.defpath}", "GITHUB_OUTPUT": str(outputs), **variables},
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    lines = outputs.read_text(encoding="utf-8").splitlines()
    reported = dict(line.split("=", 1) for line in lines)
    return Ran(ran.returncode, ran.stderr, reported, asked.read_text(encoding="utf-8").splitlines())


def base_images() -> dict[str, str]:
    """The base images that the Dockerfile names, by build argument."""
    return dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE))


def test_a_release_looks_up_the_digest_of_each_base_image(tmp_path: Path) -> None:
    ran = run_step(tmp_path, release_steps()[0], f'"{DIGEST}"')

    assert {"RUN_IMAGE", "BUILD_IMAGE"} == base_images().keys()
    assert (0, {name: f"{base}@{DIGEST}" for name, base in base_images().items()}) == (ran.status, ran.outputs)


@pytest.mark.parametrize("answer", ["", "null", '"sha256:"', '"sha256:abc"', '"latest"'])
def test_a_release_refuses_a_base_image_that_has_no_digest(tmp_path: Path, answer: str) -> None:
    """Nothing is handed to the build."""
    ran = run_step(tmp_path, release_steps()[0], answer)

    assert (1, {}) == (ran.status, ran.outputs)
    assert f"{base_images()['RUN_IMAGE']} has no digest" in ran.said


def test_a_release_builds_from_the_digests(tmp_path: Path) -> None:
    """They are handed over as the arguments of the Dockerfile, and stand in the labels of the image."""
    _, build = release_steps()
    bases = {name: f"{base}@{DIGEST}" for name, base in base_images().items()}
    handed_over = {name: build["env"][name] for name in bases}
    ran = run_step(tmp_path, build, "", **bases, IMAGE="there:v1", TOKEN="t", GITHUB_ACTOR="a")
    (built,) = (line for line in ran.docker if line.startswith("build "))

    assert {name: f"${{{{ steps.bases.outputs.{name} }}}}" for name in bases} == handed_over
    assert 0 == ran.status, ran.said
    for name, base in bases.items():
        assert f"--build-arg {name}={base} " in built
    assert f"org.opencontainers.image.base.digest={DIGEST} " in built


def test_a_release_builds_the_demo_from_the_same_digests(tmp_path: Path) -> None:
    """Under the name of the image with an ending of its own."""
    demo = next(step for step in workflow_steps("image") if "--target demo" in step.get("run", ""))
    bases = {name: f"{base}@{DIGEST}" for name, base in base_images().items()}
    ran = run_step(tmp_path, demo, "", **bases, IMAGE="there:v1")

    assert 0 == ran.status, ran.said
    assert all(f"--build-arg {name}={base} " in ran.docker[0] for name, base in bases.items())
    assert ran.docker[0].endswith("--tag there:v1-demo .")
    assert "push there:v1-demo" == ran.docker[1]


def test_actions_of_others_are_named_by_their_commits() -> None:
    """A tag can be moved to other code."""
    used = [step["uses"] for job in ("check", "image", "files") for step in workflow_steps(job) if "uses" in step]

    assert [] == [each for each in used if not re.search(r"@[0-9a-f]{40}$", each)]
    assert len(used) >= 6


def test_nothing_is_pushed_before_the_tag_is_checked_and_the_tests_have_run() -> None:
    runs = [step["run"] for step in workflow_steps("check") if "run" in step]

    assert ["check", "image"] == [workflow()["jobs"][job]["needs"] for job in ("image", "files")]
    assert "make test" == runs[-1]
    assert not any(word in run for run in runs for word in ("docker", "push"))


@pytest.mark.parametrize("missing", ["RUN_IMAGE", "BUILD_IMAGE"])
@pytest.mark.parametrize("name", ["", "python:3.13-trixie", "python@sha256:abc"])
def test_a_release_does_not_build_from_a_base_image_without_digest(tmp_path: Path, missing: str, name: str) -> None:
    """Docker is not even asked."""
    bases = {each: f"{base}@{DIGEST}" for each, base in base_images().items()} | {missing: name}
    ran = run_step(tmp_path, release_steps()[1], "", **bases, IMAGE="there:v1", TOKEN="t", GITHUB_ACTOR="a")

    assert (1, []) == (ran.status, ran.docker)
    assert f"The base image '{name}' has no digest" in ran.said


def test_the_locks_are_for_the_python_of_the_base() -> None:
    """In the Dockerfile, the locks and the stand-ins of the image's test."""
    bases = re.findall(r"python:(3\.\d+)-(?:slim-)?(\w+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    locks = [(DEPLOY / name).read_text(encoding="utf-8") for name in ("requirements.lock", "requirements-build.lock")]

    assert [(PYTHON, RELEASE)] * 2 == bases
    assert PYTHON == program("lock").PYTHON
    assert all(f"for CPython {PYTHON} on" in text for text in locks)


def test_the_default_target_is_the_gateway_without_the_simulator() -> None:
    """The stage with the simulator is built only where it is asked for by its name."""
    text = DOCKERFILE.read_text(encoding="utf-8")

    assert "FROM gateway" == text.rstrip().splitlines()[-1]
    assert "simulator" not in stage("gateway")
    assert 1 == len(re.findall("^COPY simulator ", stage("demo"), re.MULTILINE))
    assert f"/lib/python{PYTHON}/site-packages/simulator" in stage("demo")


def test_a_command_of_the_program_can_be_given_to_the_image() -> None:
    """`docker run IMAGE demo`; without a command it serves what is mounted."""
    assert 'ENTRYPOINT ["warmgate"]\nCMD ["serve", "--config", "/etc/warmgate/warmgate.yaml"]' in stage("gateway")
    assert 'CMD ["demo"]' in stage("demo")


def test_the_image_has_a_list_of_its_packages() -> None:
    """Made after packages are removed, so that the list names no package that is not there."""
    build = stage("build")

    assert build.index("uninstall --yes") < build.index("/opt/build/bin/cyclonedx-py environment ")
    assert "--output-file /opt/warmgate/sbom.cdx.json /opt/warmgate/bin/python" in build
    assert asked_for("sbom") <= {package for package, _, _ in locked("requirements-build.lock")}


def test_it_runs_as_somebody_who_is_not_root() -> None:
    assert ["10001:10001"] == re.findall(r"^USER (.+)$", stage("gateway"), re.MULTILINE)


def test_what_is_needed_to_build_is_let_through() -> None:
    """Everything that is copied, and nothing that is not; secrets and tests stay out."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)

    assert "*" in lines
    assert {path for sources in copied for path in sources.split()} == let_through
    assert all((ROOT / path).exists() for path in let_through)


def program(name: str) -> ModuleType:
    """A module of deploy/, which is no package."""
    found = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_wheels_that_differ_by_platform_have_all_their_digests() -> None:
    """Those that do not have one."""
    by_platform = [{"uvloop==1": "b2", "six==2": "a1"}, {"uvloop==1": "c3", "six==2": "a1"}]

    assert [
        "six==2 \\\n    --hash=sha256:a1",
        "uvloop==1 \\\n    --hash=sha256:b2 \\\n    --hash=sha256:c3",
    ] == list(program("lock").lines(by_platform))


def test_what_is_taken_out_is_what_a_gateway_never_reads(tmp_path: Path) -> None:
    """Services that it does not call, and tests of others; nothing else, and nothing where they are not."""
    slim = program("slim")
    kept = ["botocore/data/bedrock-runtime/v.json", "botocore/data/s3/v.json", "botocore/data/endpoints.json"]
    kept += ["numpy/core.py", "httpx/tests/a.py", "phonenumbers/data/region_DE.py"]
    gone = ["botocore/data/ec2/v.json", "numpy/tests/test_a.py", "numpy/linalg/tests/test_b.py"]
    gone += ["phonenumbers/geodata/data0.py", "phonenumbers/carrierdata/data0.py"]
    for name in kept + gone:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1234567")

    freed_bytes = slim.remove(slim.superfluous(tmp_path))

    assert 5 * 7 == freed_bytes
    assert kept == [name for name in kept + gone if (tmp_path / name).exists()]
    assert [] == slim.superfluous(tmp_path)


@pytest.mark.parametrize(("tag", "status"), [("v{}", 0), ("v{}.1", 1), ("{}", 1)])
def test_a_release_is_made_from_the_tag_of_its_version_only(tmp_path: Path, tag: str, status: int) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    (step,) = (each for each in workflow_steps("check") if "TAG" in each.get("env", {}))
    (tmp_path / "python").symlink_to(sys.executable)

    ran = run_step(tmp_path, step, "", TAG=tag.format(version))

    assert (status, status == 1) == (ran.status, "the version of the project is" in ran.said)


def test_a_release_signs_its_checksums_before_it_is_published() -> None:
    """The image too, and the chart; by the identity of the workflow, so no key is kept."""
    runs = [step.get("run", "") for step in workflow_steps("files")]
    signed = [step.get("run", "") for job in ("image", "files") for step in workflow_steps(job)]
    order = [
        next(number for number, run in enumerate(runs) if wanted in run)
        for wanted in ("make release", "cosign sign-blob", "gh release create")
    ]

    assert sorted(order) == order
    assert {"write"} == {workflow()["jobs"][job]["permissions"]["id-token"] for job in ("image", "files")}
    assert 2 == sum(run.count("cosign sign --yes") for run in signed)
