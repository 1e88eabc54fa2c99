"""The example of an Envoy without Kubernetes has the shape that the other tests run, and Envoy accepts it."""

from pathlib import Path
from typing import Any

import yaml

from tests.picker.configuration import Pool, configuration
from tests.picker.envoy import validate

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "endpoint-picker" / "envoy.yaml"


def without_what_tests_add(config: dict[str, Any]) -> dict[str, Any]:
    """Return *config* without the filter for subsets, and with the picker's filter enabled for all routes."""
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    manager["http_filters"] = [
        {name: value for name, value in each.items() if name != "disabled"}
        for each in manager["http_filters"]
        if each["name"] != "subset"
    ]
    del manager["route_config"]["virtual_hosts"][0]["routes"][0]["typed_per_filter_config"]
    return config


def test_the_example_is_what_the_tests_run() -> None:
    pool = Pool("127.0.0.1:9002", ["10.0.0.5:8000", "10.0.0.6:8000"], name="llama-70b")
    tested = without_what_tests_add(configuration([pool], port=8080, admin_port=9901))

    assert tested == yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))


async def test_envoy_accepts_the_example() -> None:
    assert "" == await validate(EXAMPLE)
