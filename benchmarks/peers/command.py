"""Comparison of Warmgate with routers of other projects, each in turn with the same workers, for every scenario.

Each scenario writes a separate report, `peers_SCENARIO`.

Exit status: 0 if all targets are met, 1 if one is missed, 2 if a scenario could not run.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.entrants import ENTRANTS, Wheel, chosen
from benchmarks.peers.environment import NotInstalledError
from benchmarks.peers.field import Scenario, Setting
from benchmarks.peers.scenarios import (
    aiperf,
    connections,
    failures,
    hot_prefix,
    memory,
    rates,
    saturation,
    sizes,
    slow_worker,
)
from benchmarks.processes import ChildFailedError
from benchmarks.report import argument_parser, conclude

SCENARIOS: Mapping[str, Scenario] = {
    "saturation": saturation.run,
    "rates": rates.run,
    "sizes": sizes.run,
    "connections": connections.run,
    "hot_prefix": hot_prefix.run,
    "slow_worker": slow_worker.run,
    "failures": failures.run,
    "memory": memory.run,
    "aiperf": aiperf.run,
}


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argument_parser("peers", __doc__)
    parser.add_argument("--scenarios", type=_words, default=tuple(SCENARIOS), help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--peers", type=_words, help=f"parts of names: {', '.join(ENTRANTS)}; default: the scenario's")
    parser.add_argument("--rounds", type=int, help="default: the scenario's")
    parser.add_argument("--seconds", type=float, help="of one measurement; default: the scenario's")
    parser.add_argument("--unpacked", type=Path, help="folder with ours, in place of a wheel that is built; to try out")
    parsed = parser.parse_args(arguments)
    if unknown := [name for name in parsed.scenarios if name not in SCENARIOS]:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    try:
        parsed.peers = chosen(parsed.peers) if parsed.peers else None
    except ValueError as error:
        parser.error(str(error))
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    setting = Setting(
        seed=parsed.seed,
        rounds=parsed.rounds,
        seconds=parsed.seconds,
        entrants=parsed.peers,
        results=parsed.results,
        wheel=Wheel(parsed.unpacked),
    )
    return max(run(name, SCENARIOS[name], setting) for name in parsed.scenarios)


def run(name: str, scenario: Scenario, setting: Setting) -> int:
    """Run one scenario and return its exit status."""
    return conclude(
        f"peers {name}",
        lambda: scenario(setting),
        results=setting.results,
        cannot_run=[ChildFailedError, NotInstalledError],
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
