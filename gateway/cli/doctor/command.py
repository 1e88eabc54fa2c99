"""`warmgate doctor`: collect facts, derive findings from them, and print the findings.

Exit codes: 0 no error and no warning, 1 at least one, or the gateway could not be asked, 2 bad configuration or usage.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from gateway.api.admin_v1.diagnosis import finding_response
from gateway.api.admin_v1.findings.finding import Finding
from gateway.api.admin_v1.findings.rules import diagnosed
from gateway.api.admin_v1.gateway_facts import GatewayFacts
from gateway.app.config_source import process_environment
from gateway.cli.commands.output import CommandFailed, Output
from gateway.cli.commands.target import URL, add_target, connected, gateway_url

MODELS = "WARMGATE_MODELS"
"""First part of the names of the environment variables that can define models without a settings file."""
COLUMNS = ("severity", "finding", "concerns", "what")


def add_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    text = "diagnose a gateway, its workers and its settings"
    parser = commands.add_parser("doctor", help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(run=run)
    parser.add_argument("--json", dest="is_json", action="store_true", help="print JSON")
    parser.add_argument(
        "--offline", action="store_true", help="with --config: do not contact the workers and the store in the settings"
    )
    add_target(parser, config_help="settings file to check, with its workers and its store, without a running gateway")


def run(arguments: argparse.Namespace) -> int:
    """Run `warmgate doctor` and return its exit code.

    Raises:
        SettingsError: the settings are wrong.
    """
    now = time.time()  # noqa: TID251
    output = Output(sys.stdout.buffer, is_json=arguments.is_json, now=now)
    try:
        findings = diagnosed(asyncio.run(_facts(arguments, now)))
    except CommandFailed as fault:
        sys.stderr.write(f"{fault}\n")
        return fault.code
    except KeyboardInterrupt:
        return 1
    show(findings, output)
    sys.stdout.flush()
    return 1 if any(finding.is_failure for finding in findings) else 0


def show(findings: Sequence[Finding], output: Output) -> None:
    """Print *findings*: a line for each finding, and below these lines a remedy for each kind of finding."""
    if output.is_json:
        output.entity({"object": "diagnosis", "findings": [finding_response(finding) for finding in findings]})
        return
    if not findings:
        output.text("Nothing to report.\n")
        return
    rows = [
        {"severity": each.severity, "finding": each.code, "concerns": each.concerns, "what": each.text}
        for each in findings
    ]
    output.entities(rows, COLUMNS)
    output.text("\nWhat to do:\n")
    for finding in {each.code: each for each in findings}.values():
        output.text(f"\n{finding.code}: {finding.remedy}\n  {finding.page}\n")


async def _facts(arguments: argparse.Namespace, now: float) -> GatewayFacts:
    environ = process_environment()
    if gateway_url(arguments, environ) is None:
        if arguments.config is None and not any(name.startswith(MODELS) for name in environ):
            raise CommandFailed(f"No gateway and no settings to check are given. Use --url, {URL} or --config.", code=2)
        return await _facts_of_settings(arguments, now)
    async with connected(arguments, environ) as client:
        answer = await client.get("diagnosis")
    try:
        facts = msgspec.convert(answer, type=GatewayFacts)
    except msgspec.ValidationError:
        raise CommandFailed("The gateway and this command are different versions of Warmgate.") from None
    return replace(facts, asked_at=time.time())  # noqa: TID251


async def _facts_of_settings(arguments: argparse.Namespace, now: float) -> GatewayFacts:
    # A command that asks a gateway has no use for these.
    from gateway.app.diagnosis.settings_facts import settings_facts  # noqa: PLC0415
    from gateway.app.diagnosis.store_facts import store_facts  # noqa: PLC0415
    from gateway.cli.doctor.questions import with_answers  # noqa: PLC0415

    found = settings_facts(arguments.config, now=now)
    if arguments.offline:
        return found.facts
    facts = await with_answers(found.facts, found.workers)
    if found.store is None:
        return facts
    return replace(facts, store=await store_facts(found.store, wall_clock=time.time))  # noqa: TID251
