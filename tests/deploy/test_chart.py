"""The chart renders for everything that ships, ships its schema, and refuses what cannot work with the value's name."""

import json
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

import helm_python
import pytest
from helm_python import Chart, HelmError, lint

from deploy.values_schema.schema import PATH, with_settings
from gateway.settings import SettingsError
from gateway.settings.change import FIXED
from gateway.settings.json_schema import written
from gateway.settings.models import unpriced_fallbacks
from gateway.settings.schema import Settings
from tests.deploy import schemas
from tests.deploy.chart import CHART, VALUES, install, tiny, values_of

LISTS = {name for name, field in Settings.model_fields.items() if tuple is get_origin(field.annotation)}
"""Groups of settings that are lists."""
each_values = pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)


@each_values
@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_every_values_file_renders_what_kubernetes_takes(path: Path, version: str) -> None:
    """No field is unknown to any version from the oldest on."""
    schemas.check(install(values_of(path)).manifests, version)


def test_operators_take_what_is_theirs() -> None:
    """ServiceMonitors, ScaledObjects, routes and secrets, by the operators' own schemas."""
    manifests = [manifest for path in VALUES for manifest in install(values_of(path)).manifests]

    assert {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ScaledObject", "HTTPRoute", "ExternalSecret"} <= {
        manifest["kind"] for manifest in manifests
    }
    schemas.check_others(manifests)


@each_values
def test_no_manifest_comes_twice(path: Path) -> None:
    seen = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in install(values_of(path)).manifests
    ]

    assert sorted(set(seen), key=str) == sorted(seen, key=str)


@each_values
def test_helm_lint_has_nothing_against_it(path: Path) -> None:
    """In its strict mode."""
    reported = lint(str(CHART), values_of(path), strict=True, kube_version="v1.33.0")

    assert [] == reported["errors"]
    assert [] == reported["messages"]


@each_values
def test_the_gateway_reads_its_configuration(path: Path) -> None:
    release = install(values_of(path))
    if any("warmgate.yaml" in each.get("data", {}) for each in release.of("ConfigMap")):
        settings = release.settings

        assert release.ports["http"] == settings.server.port
        assert settings.server.host in {"0.0.0.0", "::"}
        assert [] == list(unpriced_fallbacks(settings.models))
    else:
        assert "our-own" == release.pod["volumes"][0]["configMap"]["name"]


def test_the_package_has_its_schema(tmp_path: Path) -> None:
    """A schema that is left out of the package checks nothing: what is loaded again refuses a typo."""
    shipped = Chart.load(helm_python.package(str(CHART), destination=str(tmp_path)))

    assert install(tiny(), chart=shipped) == install(tiny())
    with pytest.raises(HelmError, match="additional properties 'replica' not allowed"):
        install(tiny(replica=3), chart=shipped)


def test_the_package_has_nothing_else(tmp_path: Path) -> None:
    """No tests, no examples: those are in the repository."""
    with tarfile.open(helm_python.package(str(CHART), destination=str(tmp_path))) as archive:
        names = {Path(name).relative_to("warmgate").parts[0] for name in archive.getnames()}

    assert {"Chart.yaml", "README.md", "files", "templates", "values.schema.json", "values.yaml"} == names - {
        ".helmignore"
    }


def test_the_schema_knows_the_groups_of_the_settings() -> None:
    """One that is new has to be named there, or the chart would refuse it."""
    groups: dict[str, Any] = {name: [] if name in LISTS else {} for name in Settings.model_fields if name != "models"}

    assert set(Settings.model_fields) <= set(install(tiny(config=groups)).config)


SECRET = {"name": "s", "key": "k"}
REDIS = "rediss://store:6379/0"
NEGATIVE: list[tuple[Mapping[str, Any], str]] = [
    ({}, r"config\.models is empty"),
    (tiny(replica=3), "'replica'"),
    (tiny(image={"tagg": "1"}), r"/image.*'tagg'"),
    (tiny(image={"digest": "1234"}), "/image/digest"),
    (tiny(replicaCount="3"), "/replicaCount"),
    (tiny(processes=-1), "/processes"),
    (tiny(image={}), r"image\.repository is empty, and there is no public image"),
    (tiny(image={"repository": None}), r"missing property 'repository'"),
    (tiny(config={"serverr": {}}), r"/config.*'serverr'"),
    (tiny(config={"server": {"port": "8080"}}), "/config/server/port"),
    (tiny(config={"server": None}), r"/config/server|config\.server"),
    (tiny(config={"server": {"host": "127.0.0.1"}}), r"config\.server\.host"),
    (tiny(config={"server": {"port": 8081}, "admin": {"port": 8081}}), "port 8081 twice"),
    (tiny(config={"server": {"probes_port": 8080}}), "port 8080 twice"),
    (tiny(config={"kv_events": {"bind": "tcp://*:5557"}}), r"config\.kv_events\.bind"),
    (tiny(config={"store": {"pepper": "12345"}}), r"config\.store\.pepper is a secret"),
    (tiny(config={"server": {"prot": 8080}}), r"/config/server.*'prot'"),
    (tiny(config={"server": {"max_body_bytes": 0}}), "/config/server/max_body_bytes"),
    (tiny(config={"timeouts": {"total_s": "30s"}}), "/config/timeouts/total_s"),
    (tiny(config={"models": [{"name": "a", "workers": [{"url": "http://a", "tire": 1}]}]}), r"workers/0.*'tire'"),
    (tiny(config={"models": [{"workers": [{"url": "http://a"}]}]}), r"/config/models/0.*'name'"),
    (tiny(config={"models": [{"name": "a", "strategy": "kv-aware"}]}), "/config/models/0/strategy"),
    (tiny(config={"teams": [{"name": "blue", "limits": {"usd_per_week": 1}}]}), r"limits.*'usd_per_week'"),
    (tiny(config={"guardrails": [{"name": "a", "kind": "regex"}]}), "/config/guardrails/0/kind"),
    (
        tiny(config={"teams": [{"name": "blue", "limits": {"usd_per_day": 50}}]}),
        r"config\.teams\[0\]\.limits would be counted separately by each of 2 replicas.*2 times",
    ),
    (
        tiny(
            config={"teams": [{"name": "blue", "model_limits": {"tiny": {"max_concurrent_requests": 5}}}]},
            replicaCount=3,
        ),
        r"config\.teams\[0\]\.model_limits would be counted separately by each of 3 replicas",
    ),
    (
        tiny(
            config={"teams": [{"name": "a"}, {"name": "b", "keys": [{"id": "k", "limits": {"tokens_per_day": 1}}]}]},
            autoscaling={"enabled": True, "minReplicas": 1, "maxReplicas": 2},
        ),
        r"config\.teams\[1\]\.keys\[0\]\.limits would be counted",
    ),
    (
        tiny(podDisruptionBudget={"minAvailable": 1, "maxUnavailable": 1}),
        r"podDisruptionBudget\.minAvailable cannot be combined with maxUnavailable",
    ),
    (tiny(valkey={"enabled": True}, secrets={"env": {"VALKEY_PASSWORD": SECRET}}), r"secrets\.env\.VALKEY_PASSWORD"),
    (tiny(config={"bedrock": {"bearer_token": "t"}}), r"config\.bedrock\.bearer_token is a secret"),
    (tiny(config={"store": {"url": "redis://:pw@host:6379/0"}}), r"config\.store\.url holds a password"),
    (tiny(config={"store": {"url": "redis://host:6379/0?password=pw"}}), r"config\.store\.url holds a password"),
    (
        tiny(config={"models": [{"name": "a", "workers": [{"url": "http://a"}, {"url": "http://b", "api_key": "k"}]}]}),
        r"config\.models\[0\]\.workers\[1\]\.api_key is a secret",
    ),
    (
        tiny(config={"models": [{"name": "a", "fallbacks": [{"openai": {"url": "http://a", "api_key": "k"}}]}]}),
        r"config\.models\[0\]\.fallbacks\[0\]\.openai\.api_key is a secret",
    ),
    (
        tiny(config={"teams": [{"name": "blue", "keys": [{"id": "a", "secret": "k"}]}]}),
        r"config\.teams\[0\]\.keys\[0\]\.secret is a secret",
    ),
    (tiny(config={"admin": {"keys": [{"role": "owner", "secret_env": "OPS"}]}}), r"secrets\.env has no entry OPS"),
    (tiny(secrets={"env": {"A-B": SECRET}}), "'A-B' does not match"),
    (tiny(secrets={"env": {"A": {"name": "s"}}}), "/secrets/env/A"),
    (tiny(config={"store": {"url": "redis://a"}}, secrets={"storeUrl": SECRET}), r"config\.store\.url cannot be"),
    (tiny(valkey={"enabled": True}, secrets={"storeUrl": SECRET}), r"valkey\.enabled cannot be combined"),
    (
        tiny(valkey={"enabled": True}, existingConfigMap={"name": "own"}),
        r"valkey\.enabled has no effect together with existingConfigMap",
    ),
    (tiny(config={"store": {"url": "sqlite:///a.db"}}, persistence={"enabled": True}), "replicaCount is above 1"),
    (tiny(config={"store": {"url": "sqlite:///a.db"}}, replicaCount=1), r"persistence\.enabled is false"),
    (tiny(sharedFiles={"enabled": True}), r"sharedFiles\.enabled requires a store"),
    (
        tiny(config={"store": {"url": REDIS}}, sharedFiles={"enabled": True, "accessModes": ["ReadWriteOnce"]}),
        r"sharedFiles\.accessModes has no ReadWriteMany",
    ),
    (
        tiny(config={"store": {"url": REDIS}, "files": {"s3": {"bucket": "files"}}}, sharedFiles={"enabled": True}),
        r"sharedFiles\.enabled cannot be combined with config\.files\.s3",
    ),
    (
        tiny(config={"store": {"url": REDIS}, "files": {"folder": "/var/lib/warmgate/files"}}),
        r"config\.files\.folder would be a different folder in each replica",
    ),
    (tiny(persistence={"enabled": True}), r"persistence\.enabled requires a single replica"),
    (
        tiny(autoscaling={"enabled": True}, keda={"enabled": True, "serverAddress": "http://p"}),
        r"keda\.enabled cannot be combined with autoscaling\.enabled",
    ),
    (tiny(keda={"enabled": True}), r"keda\.serverAddress is empty"),
    (tiny(autoscaling={"enabled": True, "minReplicas": 9}), r"autoscaling\.minReplicas is above"),
    (
        tiny(autoscaling={"enabled": True, "targetCPUUtilizationPercentage": None}),
        r"autoscaling\.enabled needs a target",
    ),
    (tiny(terminationGracePeriodSeconds=139), r"terminationGracePeriodSeconds is 139.*\(140\)"),
    (tiny(slackSeconds=0), "/slackSeconds"),
    (tiny(podDisruptionBudget={"minAvailable": 2}), r"podDisruptionBudget\.minAvailable"),
    (tiny(podDisruptionBudget={"minAvailable": "100%"}), r"podDisruptionBudget\.minAvailable"),
    (tiny(resources={"limits": {"memory": "1Gi"}}), r"resources\.limits\.memory is 1024 MiB"),
    (
        tiny(ingress={"enabled": True, "preset": "alb", "alb": {"idleTimeoutSeconds": 75}}),
        r"config\.server\.keep_alive_s is 75",
    ),
    (
        tiny(ingress={"enabled": True, "preset": "alb", "alb": {"deregistrationDelaySeconds": 60}}),
        r"ingress\.alb\.deregistrationDelaySeconds is 60",
    ),
    (tiny(ingress={"preset": "traefik"}), "/ingress/preset"),
    (tiny(ingress={"paths": ["v1"]}), "/ingress/paths/0"),
    (tiny(httpRoute={"enabled": True}), r"httpRoute\.parentRefs is empty"),
    (tiny(podMonitor={"enabled": True}), r"podMonitor\.selector is empty"),
    (tiny(externalSecrets={"enabled": True}), r"externalSecrets\.store\.name is empty"),
    (
        tiny(networkPolicy={"enabled": True}, config={"models": [{"name": "a", "workers_file": "/w/a.yaml"}]}),
        r"networkPolicy\.enginePorts is empty, and config\.models\[0\]\.workers_file",
    ),
    (
        tiny(networkPolicy={"enabled": True}, config={"models": [{"name": "a", "inference_pool": {"name": "a"}}]}),
        r"networkPolicy\.enginePorts is empty, and config\.models\[0\]\.inference_pool has no numeric port",
    ),
    (
        tiny(
            networkPolicy={"enabled": True}, config={"models": [{"name": "a", "service": {"name": "a", "port": "x"}}]}
        ),
        r"networkPolicy\.enginePorts is empty, and config\.models\[0\]\.service",
    ),
    (
        tiny(serviceAccount={"automount": False}, config={"models": [{"name": "a", "service": {"name": "a"}}]}),
        r"serviceAccount\.automount is false",
    ),
    (tiny(networkPolicy={"awsCidrs": ["everywhere"]}), "/networkPolicy/awsCidrs/0"),
]


@pytest.mark.parametrize(("values", "reported"), NEGATIVE, ids=[reported for _, reported in NEGATIVE])
def test_what_cannot_work_is_refused_by_name(values: Mapping[str, Any], reported: str) -> None:
    """Before anything is installed; the sentence names the value to change."""
    with pytest.raises(HelmError, match=f"(?s){reported}"):
        install(values)


def test_all_faults_are_reported_at_once() -> None:
    """All faults are reported together."""
    with pytest.raises(HelmError) as caught:
        install(
            tiny(httpRoute={"enabled": True}, slackSeconds=5, terminationGracePeriodSeconds=1, keda={"enabled": True})
        )

    assert 3 == sum(name in str(caught.value) for name in ("httpRoute.", "terminationGrace", "keda.serverAddress"))


def test_what_the_gateway_alone_can_refuse_is_refused_by_it() -> None:
    """The schema has types, names and bounds, no rules between settings; a test of a values file runs the loader."""
    with pytest.raises(SettingsError) as caught:
        _ = install(tiny(config={"routing": {"lease_s": 1}})).settings

    assert "routing.lease_s" in caught.value.sentences[0]


def test_the_schema_of_config_is_that_of_the_settings() -> None:
    """After a change of a setting: `python -m deploy.values_schema`."""
    text = PATH.read_text(encoding="utf-8")

    assert written(with_settings(json.loads(text))) == text


def test_a_removed_setting_renders_with_the_value_that_the_gateway_ignores() -> None:
    """An upgrade of the chart needs no other values; what the gateway would refuse is refused when it renders."""
    settings = install(tiny(config={"server": {"implementation": "uvicorn"}})).settings
    with pytest.raises(HelmError, match="/config/server/implementation"):
        install(tiny(config={"server": {"implementation": "granian"}}))

    assert "implementation" not in settings.model_dump()["server"]


@pytest.mark.parametrize(
    "more",
    [
        {"replicaCount": 1},
        {"secrets": {"storeUrl": SECRET}},
        {"valkey": {"enabled": True}},
        {"secrets": {"envFrom": ["gateway"]}},
        {"extraEnv": [{"name": "WARMGATE_STORE__URL", "value": "redis://cache:6379/0"}]},
    ],
)
def test_limits_render_where_they_are_counted_once(more: Mapping[str, Any]) -> None:
    """One replica, or a store that all share; the chart does not see every variable."""
    teams = [{"name": "blue", "limits": {"usd_per_day": 50, "max_concurrent_requests": None}}]

    assert install(tiny(config={"teams": teams}, **more)).of("Deployment")


def test_replicas_share_a_volume_for_files() -> None:
    """It outlives the release. A folder that the settings name stays."""
    values = tiny(config={"store": {"url": REDIS}}, sharedFiles={"enabled": True, "storageClass": "efs"})
    release = install(values)
    claim = release.one("PersistentVolumeClaim")
    (volume,) = (each for each in release.pod["volumes"] if "files" == each["name"])
    (mount,) = (each for each in release.container["volumeMounts"] if "files" == each["name"])
    named = tiny(config={"store": {"url": REDIS}, "files": {"folder": "/other"}}, sharedFiles={"enabled": True})

    assert (["ReadWriteMany"], "efs") == (claim["spec"]["accessModes"], claim["spec"]["storageClassName"])
    assert "keep" == claim["metadata"]["annotations"]["helm.sh/resource-policy"]
    assert {"claimName": claim["metadata"]["name"]} == volume["persistentVolumeClaim"]
    assert mount["mountPath"] == str(release.settings.files.folder)
    assert "/other" == str(install(named).settings.files.folder)


def test_files_in_a_bucket_need_no_volume_in_common() -> None:
    """Each pod has a volume for temporary files. A folder that the settings name stays."""
    values = tiny(config={"store": {"url": REDIS}, "files": {"s3": {"bucket": "files"}}})
    release = install(values | {"scratch": {"sizeLimit": "20Gi"}})
    (volume,) = (each for each in release.pod["volumes"] if "scratch" == each["name"])
    (mount,) = (each for each in release.container["volumeMounts"] if "scratch" == each["name"])
    bucket = release.settings.files.s3
    named = install(
        tiny(config={"store": {"url": REDIS}, "files": {"s3": {"bucket": "files", "scratch_folder": "/x"}}})
    )

    assert bucket is not None
    assert "files" == bucket.bucket
    assert mount["mountPath"] == bucket.scratch_folder
    assert {"sizeLimit": "20Gi"} == volume["emptyDir"]
    assert named.settings.files.s3 is not None
    assert "/x" == named.settings.files.s3.scratch_folder
    assert [] == release.of("PersistentVolumeClaim")


def test_a_claim_for_files_can_exist_already() -> None:
    sqlite = {"persistence": {"enabled": True}, "replicaCount": 1, "podDisruptionBudget": {"enabled": False}}
    config = {"store": {"url": "sqlite:///var/lib/warmgate/db"}}
    one = install(tiny(config=config, sharedFiles={"enabled": True, "accessModes": ["ReadWriteOnce"]}, **sqlite))
    existing = install(tiny(config={"store": {"url": REDIS}}, sharedFiles={"enabled": True, "existingClaim": "ours"}))

    assert 2 == len(one.of("PersistentVolumeClaim"))
    assert [] == existing.of("PersistentVolumeClaim")
    assert "ours" in str(existing.pod["volumes"])


@pytest.mark.parametrize(("processes", "options"), [(None, []), (0, ["--processes", "0"]), (4, ["--processes", "4"])])
def test_a_pod_has_as_many_processes_as_its_value(processes: int | None, options: list[str]) -> None:
    (container,) = install(tiny(processes=processes)).one("Deployment")["spec"]["template"]["spec"]["containers"]

    assert ["serve", "--config", "/etc/warmgate/warmgate.yaml", *options] == container["args"]


def test_teams_without_limits_need_no_store() -> None:
    teams = [{"name": "blue", "limits": {"usd_per_day": None}, "keys": [{"id": "a", "secret_sha256": "0" * 64}]}]

    assert install(tiny(config={"teams": teams})).of("Deployment")


@pytest.fixture(scope="module")
def unchecked(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    """The chart without its schema: it renders settings that there are not."""
    copied = tmp_path_factory.mktemp("charts") / "warmgate"
    shutil.copytree(CHART, copied)
    (copied / "values.schema.json").unlink()
    return Chart.load(str(copied))


def checksum(values: Mapping[str, Any], chart: Chart | None = None) -> str:
    annotations: dict[str, str] = install(values, chart=chart).one("Deployment")["spec"]["template"]["metadata"][
        "annotations"
    ]
    return annotations["checksum/config"]


def test_pods_are_replaced_for_what_they_would_not_notice(unchecked: Chart) -> None:
    rolls = {
        group
        for group in Settings.model_fields
        if checksum(tiny(), unchecked)
        != checksum(tiny(config={group: [{"name": "other"}] if group in LISTS else {"x": 1}}), unchecked)
    }

    assert set(FIXED) == rolls


def test_pods_are_replaced_for_every_change_where_that_is_wanted() -> None:
    """`configReload: false`."""
    changed = tiny(configReload=False, config={"timeouts": {"total_s": 60}})

    assert checksum(tiny(configReload=False)) != checksum(changed)


def test_a_pod_knows_its_zone_from_its_label() -> None:
    """Unless the configuration names one; a label that is not there says nothing."""
    (variable,) = (each for each in install(tiny()).container["env"] if "WARMGATE_SERVER__ZONE" == each["name"])
    named = install(tiny(config={"server": {"zone": "here"}}))

    assert "metadata.labels['topology.kubernetes.io/zone']" == variable["valueFrom"]["fieldRef"]["fieldPath"]
    assert install(tiny()).settings.server.zone is None
    assert "WARMGATE_SERVER__ZONE" not in named.variables
    assert "here" == named.settings.server.zone


def test_large_numbers_stay_whole() -> None:
    """Helm's values are floating point: 10 GiB must not become 1.073741824e+10."""
    release = install(tiny(config={"index": {"max_bytes": 10737418240}}, resources={"limits": {"memory": "16Gi"}}))

    assert 10737418240 == release.settings.index.max_bytes


def test_the_notes_say_what_to_try() -> None:
    """With this release's names; and that without teams no one can ask."""
    alone = install(tiny())
    governed = install(values_of(CHART / "values-examples" / "dev.yaml"))

    assert "curl http://127.0.0.1:8080/readyz" in alone.notes
    assert '"model": "tiny"' in alone.notes
    assert "No caller can send requests yet" in alone.notes
    assert "No caller can send requests yet" not in governed.notes
    assert "svc/warmgate-pods 8081:8081" in governed.notes
    assert "A pod stops within 150 s" in alone.notes


def test_a_store_in_redis_is_initialized_with_the_installation() -> None:
    release = install(tiny(valkey={"enabled": True}))
    (job,) = release.of("Job")
    pod = job["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    (service,) = [each for each in release.of("Service") if each["metadata"]["name"] == "warmgate"]

    assert ["warmgate", "store", "init", "--config", "/etc/warmgate/warmgate.yaml"] == container["command"]
    assert container["image"] == release.container["image"]
    assert container["env"] == release.container["env"]
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    for values in (tiny(), tiny(valkey={"enabled": True}, storeInit={"enabled": False})):
        assert [] == install(values).of("Job")
