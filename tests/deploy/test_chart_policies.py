"""What holds for everything that the chart renders, whichever values it is given."""

import ast
import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.api import probes
from tests.deploy.chart import CHART, NAMESPACE, VALUES, Manifest, Release, install, metric_families, tiny, values_of

RELEASES = {path.stem: install(values_of(path)) for path in VALUES}
DERIVED = {name: release for name, release in RELEASES.items() if name != "existing-config-values"}
"""Those whose configuration the chart renders."""

each_release = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
each_configured = pytest.mark.parametrize("release", DERIVED.values(), ids=DERIVED)
SECRET = {"name": "s", "key": "k"}


def with_service(**model: Any) -> dict[str, Any]:
    return {"name": "a", "service": {"name": "engines", "port": 8000}, **model}


# ---- its end


@each_configured
def test_a_pod_has_time_for_its_end(release: Release) -> None:
    """The platform's grace is longer than what comes before SIGTERM, the delay, and the gateway's own grace."""
    server = release.settings.server
    hook = release.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)

    assert hook + server.stop_delay_s + server.shutdown_grace_s <= release.pod["terminationGracePeriodSeconds"]


@each_release
def test_a_rollout_takes_no_pod_away_before_its_successor_is_ready(release: Release) -> None:
    strategy = release.one("Deployment")["spec"]["strategy"]
    has_file = any("persistentVolumeClaim" in volume for volume in release.pod["volumes"])

    assert (has_file and {"type": "Recreate"} == strategy) or 0 == strategy["rollingUpdate"]["maxUnavailable"]


# ---- probes


def test_probes_are_routes_of_the_gateway() -> None:
    """Each asks another question: has it started, does it live, should it get requests; all on the port for that."""
    release = install(tiny())
    served = {getattr(route, "path", "") for route in probes.router.routes}
    asked = {name: release.container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}

    assert {"startupProbe": "/livez", "readinessProbe": "/readyz", "livenessProbe": "/livez"} == {
        name: question["path"] for name, question in asked.items()
    }
    assert {question["path"] for question in asked.values()} | {"/metrics"} <= served
    assert {"metrics"} == {question["port"] for question in asked.values()}


@each_release
def test_every_port_that_is_named_exists(release: Release) -> None:
    names = set(release.ports)
    probes = [release.container[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    asked = [probe["httpGet"]["port"] for probe in probes if "httpGet" in probe]
    own = [each for each in release.of("Service") if not each["metadata"]["name"].endswith("-valkey")]
    targets = [port["targetPort"] for service in own for port in service["spec"]["ports"]]
    scraped = [end["port"] for monitor in release.of("ServiceMonitor") for end in monitor["spec"]["endpoints"]]

    assert set() == {*asked, *targets, *scraped} - names


@each_configured
def test_the_pod_opens_the_ports_that_the_settings_open(release: Release) -> None:
    """All of them, and no others."""
    settings = release.settings
    wanted = {settings.server.port, settings.server.probes_port, settings.admin.port}
    if settings.kv_events.bind is not None:
        wanted.add(int(settings.kv_events.bind.rpartition(":")[2]))
    if "picker" in release.container["args"]:
        wanted.add(int(settings.picker.listen.rpartition(":")[2]))

    assert wanted - {None} == set(release.ports.values())


# ---- rights


READ = {"get", "list", "watch"}


@each_release
def test_it_may_read_where_its_workers_are_and_nothing_else(release: Release) -> None:
    """No wildcard, no change of anything, no Secret."""
    for role in [*release.of("Role"), *release.of("ClusterRole")]:
        for rule in role["rules"]:
            assert READ == set(rule["verbs"])
            assert (rule["apiGroups"], rule["resources"]) in (
                (["discovery.k8s.io"], ["endpointslices"]),
                ([""], ["pods"]),
                (["inference.networking.k8s.io"], ["inferencepools"]),
                (["llm-d.ai"], ["inferenceobjectives"]),
                (["llm-d.ai"], ["inferencemodelrewrites"]),
            )


@pytest.mark.parametrize(
    ("model", "namespaces", "resources"),
    [
        ({"name": "a", "workers": [{"url": "http://a"}]}, [], []),
        ({"name": "a", "dns": {"name": "a.example.com", "port": 8000}}, [], []),
        (with_service(), [NAMESPACE], ["endpointslices"]),
        (with_service(service={"name": "a", "namespace": "models"}), ["models"], ["endpointslices"]),
        ({"name": "a", "pods": {"selector": "app=a", "namespace": "models"}}, ["models"], ["pods"]),
        (
            {"name": "a", "inference_pool": {"name": "a", "namespace": "models"}},
            ["models"],
            ["pods", "inferencepools"],
        ),
        (
            {"name": "a", "inference_pool": {"name": "a", "objectives": True}},
            [NAMESPACE],
            ["pods", "inferencepools", "inferenceobjectives"],
        ),
        (
            {"name": "a", "inference_pool": {"name": "a", "rewrites": True}},
            [NAMESPACE],
            ["pods", "inferencepools", "inferencemodelrewrites"],
        ),
        (
            with_service(pods={"selector": "app=a", "namespace": "models"}),
            [NAMESPACE, "models"],
            ["endpointslices", "pods"],
        ),
    ],
)
def test_rights_follow_from_how_workers_are_found(model: Manifest, namespaces: list[str], resources: list[str]) -> None:
    """A Role in each namespace that is read, a token only for who needs one."""
    release = install(tiny(config={"models": [model]}))

    assert namespaces == sorted(role["metadata"]["namespace"] for role in release.of("Role"))
    assert namespaces == sorted(binding["metadata"]["namespace"] for binding in release.of("RoleBinding"))
    for role in release.of("Role"):
        assert resources == [each for rule in role["rules"] for each in rule["resources"]]
    assert bool(resources) is release.pod["automountServiceAccountToken"]
    assert [] == release.of("ClusterRole")


def test_the_namespace_of_the_settings_counts_where_a_service_names_none() -> None:
    config = {"kubernetes": {"namespace": "models"}, "models": [with_service()]}

    assert "models" == install(tiny(config=config)).one("Role")["metadata"]["namespace"]


@each_release
def test_roles_are_bound_to_the_account_that_the_pod_uses(release: Release) -> None:
    account = {"kind": "ServiceAccount", "name": release.pod["serviceAccountName"], "namespace": NAMESPACE}
    for binding in [*release.of("RoleBinding"), *release.of("ClusterRoleBinding")]:
        assert [account] == binding["subjects"]


# ---- secrets


SECRET_NAMES = re.compile(r"(SECRET|TOKEN|PEPPER|KEY|PASSWORD|STORE__URL)$")


@each_release
def test_no_secret_stands_in_plain_text(release: Release) -> None:
    """The chart makes no Secret but its Valkey's, and what a variable of such a name holds comes from one."""
    containers = [*release.pod["containers"], *(pod["spec"]["containers"][0] for pod in release.of("Pod"))]
    plain = [
        each["name"]
        for container in containers
        for each in container.get("env", [])
        if SECRET_NAMES.search(each["name"])
        and "secretKeyRef" not in each.get("valueFrom", {})
        and "://:$(VALKEY_PASSWORD)@" not in each["value"]
    ]

    assert all(each["metadata"]["name"].endswith("-valkey") for each in release.of("Secret"))
    assert [] == plain


def test_each_secret_reaches_its_setting() -> None:
    config = {"admin": {"keys": [{"role": "owner", "secret_env": "OPS"}]}}
    references = dict.fromkeys(("storeUrl", "storePepper", "bedrockToken"), SECRET)
    settings = install(tiny(config=config, secrets={**references, "env": {"OPS": SECRET}})).settings

    found = (settings.store.pepper, settings.bedrock.bearer_token)
    assert ["stand-in"] * 2 == [each and each.get_secret_value() for each in found]
    assert "rediss://:secret@store:6379/0" == settings.store.url
    assert settings.admin.keys[0].secret is not None


def test_the_valkey_of_the_chart_has_a_password() -> None:
    """Made by the chart, of 40 letters and digits; the server asks for it and the gateway gives it."""
    release = install(tiny(valkey={"enabled": True}))
    (server,) = release.one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    made = release.one("Secret")
    reference = {"name": "warmgate-valkey", "key": "password"}

    assert ("warmgate-valkey", "Opaque") == (made["metadata"]["name"], made["type"])
    assert re.fullmatch("[A-Za-z0-9]{40}", base64.b64decode(made["data"]["password"]).decode())
    assert ["--requirepass", "$(VALKEY_PASSWORD)"] == server["args"][-2:]
    assert {"VALKEY_PASSWORD": reference, "VALKEYCLI_AUTH": reference, "REDISCLI_AUTH": reference} == {
        each["name"]: each["valueFrom"]["secretKeyRef"] for each in server["env"]
    }
    assert {"VALKEY_PASSWORD": reference} == {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in release.container["env"]
        if each["name"] == "VALKEY_PASSWORD"
    }
    assert "redis://:stand-in@warmgate-valkey:6379/0" == release.settings.store.url
    assert "redis://" not in str(release.config)


def test_the_valkey_of_the_chart_takes_a_password_of_a_secret() -> None:
    """Then the chart makes none."""
    auth = {"existingSecret": {"name": "ours", "key": "pw"}}
    release = install(tiny(valkey={"enabled": True, "auth": auth}))
    (server,) = release.one("StatefulSet")["spec"]["template"]["spec"]["containers"]

    assert [] == release.of("Secret")
    assert [{"name": "ours", "key": "pw"}] * 3 == [each["valueFrom"]["secretKeyRef"] for each in server["env"]]


def test_a_password_that_was_made_is_kept() -> None:
    """The template looks for it before it makes one. Only a cluster can show the rest: there is not one here."""
    template = (CHART / "templates" / "valkey.yaml").read_text(encoding="utf-8")

    assert 'lookup "v1" "Secret" .Release.Namespace $name' in template
    assert "$password | default (randAlphaNum 40 | b64enc)" in template


def test_variables_of_services_do_not_come_near_the_settings() -> None:
    """Kubernetes would make WARMGATE_PORT and the like, of a Service called warmgate."""
    for release in RELEASES.values():
        assert release.pod["enableServiceLinks"] is False


# ---- the pod


@each_release
def test_pods_run_restricted(release: Release) -> None:
    pods = [release.pod, *(pod["spec"] for pod in release.of("Pod"))]
    pods += [each["spec"]["template"]["spec"] for each in release.of("StatefulSet")]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
        for container in pod["containers"]:
            if container["name"] == "beside":
                continue  # of the values
            context = container["securityContext"]
            assert (False, True) == (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"])
            assert ["ALL"] == context["capabilities"]["drop"]
            assert "memory" in container["resources"]["limits"]


@each_release
def test_what_the_image_writes_to_is_a_volume(release: Release) -> None:
    """/tmp, and the folder of a store."""
    mounts = {mount["mountPath"]: mount for mount in release.container["volumeMounts"]}

    assert {"/tmp", "/var/lib/warmgate"} <= set(mounts)
    assert mounts["/etc/warmgate"]["readOnly"] is True
    assert "subPath" not in mounts["/etc/warmgate"]


def test_it_stays_off_nodes_with_gpus() -> None:
    terms = install(tiny()).pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    keys = {each["key"] for each in terms["nodeSelectorTerms"][0]["matchExpressions"]}

    assert {
        "nvidia.com/gpu.present",
        "karpenter.k8s.aws/instance-gpu-count",
        "eks.amazonaws.com/instance-gpu-count",
    } <= keys
    assert "tolerations" not in install(tiny()).pod


@each_release
def test_replicas_are_spread_by_the_pods_own_labels(release: Release) -> None:
    """A constraint on labels that no pod has spreads nothing."""
    labels = release.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    for constraint in release.pod.get("topologySpreadConstraints", []):
        assert constraint["labelSelector"]["matchLabels"].items() <= labels.items()
        assert ["pod-template-hash"] == constraint["matchLabelKeys"]


@each_release
def test_selectors_never_change(release: Release) -> None:
    """Kubernetes refuses an upgrade that changes one; so it holds nothing of a version or of a value but the names."""
    named = {
        "app.kubernetes.io/name": "gate"
        if "our-gateway" in release.one("Deployment")["metadata"]["name"]
        else "warmgate",
        "app.kubernetes.io/instance": "warmgate",
    }
    for kind in ("Deployment", "StatefulSet"):
        for each in release.of(kind):
            component = "gateway" if kind == "Deployment" else "valkey"
            assert {"matchLabels": {**named, "app.kubernetes.io/component": component}} == each["spec"]["selector"]


@each_release
def test_every_selector_finds_pods_of_its_component_only(release: Release) -> None:
    """The Valkey of a release is not behind the gateway's Service, and the test's pod behind nothing."""
    made = [each["spec"]["template"] for kind in ("Deployment", "StatefulSet") for each in release.of(kind)]
    found = [each["metadata"]["labels"] for each in [*made, *release.of("Pod")]]
    pods = {labels["app.kubernetes.io/component"]: labels for labels in found}
    for service in release.of("Service"):
        wanted = "valkey" if service["metadata"]["name"].endswith("-valkey") else "gateway"
        assert [wanted] == [
            name for name, labels in pods.items() if service["spec"]["selector"].items() <= labels.items()
        ]


# ---- how many


@each_release
def test_one_scaler_at_most_sets_the_number(release: Release) -> None:
    name = release.one("Deployment")["metadata"]["name"]
    scalers = [*release.of("HorizontalPodAutoscaler"), *release.of("ScaledObject")]
    ours = [each for each in scalers if ("Deployment", name) == _target(each)]

    assert 1 >= len(ours)
    assert (not ours) == ("replicas" in release.one("Deployment")["spec"])


def _target(scaler: Manifest) -> tuple[str, str]:
    target = scaler["spec"]["scaleTargetRef"]
    return target["kind"], target["name"]


@each_release
def test_no_one_shrinks_in_a_hurry(release: Release) -> None:
    """Each pod carries an index and open streams: five quiet minutes at least."""
    behaviors = [each["spec"]["behavior"] for each in release.of("HorizontalPodAutoscaler")]
    behaviors += [
        each["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] for each in release.of("ScaledObject")
    ]
    for behavior in behaviors:
        assert 300 <= behavior["scaleDown"]["stabilizationWindowSeconds"]


@each_release
def test_a_disruption_budget_never_forbids_a_drain(release: Release) -> None:
    """With one replica there is not one; with more, one may go."""
    count = release.one("Deployment")["spec"].get("replicas")
    budgets = release.of("PodDisruptionBudget")

    assert not (1 == count and budgets)
    for budget in budgets:
        assert "AlwaysAllow" == budget["spec"]["unhealthyPodEvictionPolicy"]
        assert (budget["spec"].get("maxUnavailable") or 0) >= 1 or "50%" == budget["spec"]["minAvailable"]


@pytest.mark.parametrize(
    ("values", "replicas"),
    [
        ({"replicaCount": 3}, 3),
        ({"autoscaling": {"enabled": True, "maxReplicas": 7}}, 7),
        ({"keda": {"enabled": True, "maxReplicas": 9, "serverAddress": "http://p"}}, 9),
        ({"replicaCount": 3, "config": {"store": {"replicas": 5}}}, 5),
    ],
)
def test_gateways_know_how_many_share_the_store(values: Mapping[str, Any], replicas: int) -> None:
    """The most that there may be: when the store is away, all of them together keep within the limits."""
    assert replicas == install(tiny(**values, secrets={"storeUrl": SECRET})).settings.store.replicas


# ---- the balancer in front


def test_an_alb_waits_as_long_as_a_pod_may_need() -> None:
    """For the end of its streams; and its idle connections end before the gateway's do."""
    release = RELEASES["eks-alb"]
    notes = release.one("Ingress")["metadata"]["annotations"]
    group = dict(each.split("=") for each in notes["alb.ingress.kubernetes.io/target-group-attributes"].split(","))
    balancer = dict(each.split("=") for each in notes["alb.ingress.kubernetes.io/load-balancer-attributes"].split(","))
    server = release.settings.server

    assert server.stop_delay_s + server.shutdown_grace_s <= int(group["deregistration_delay.timeout_seconds"])
    assert "least_outstanding_requests" == group["load_balancing.algorithm.type"]
    assert int(balancer["idle_timeout.timeout_seconds"]) < server.keep_alive_s
    assert ("/readyz", str(server.probes_port)) == (
        notes["alb.ingress.kubernetes.io/healthcheck-path"],
        notes["alb.ingress.kubernetes.io/healthcheck-port"],
    )
    assert ("internal", "ip", "HTTP1") == (
        notes["alb.ingress.kubernetes.io/scheme"],
        notes["alb.ingress.kubernetes.io/target-type"],
        notes["alb.ingress.kubernetes.io/backend-protocol-version"],
    )


def test_an_nginx_passes_streams_and_bodies_as_they_are() -> None:
    """Unbuffered, as large as the gateway takes them, and for as long as an answer may take."""
    release = install(tiny(ingress={"enabled": True, "preset": "nginx", "annotations": {"a": "b"}}))
    notes = release.one("Ingress")["metadata"]["annotations"]
    prefix = "nginx.ingress.kubernetes.io/"
    settings = release.settings

    assert "nginx" == release.one("Ingress")["spec"]["ingressClassName"]
    assert {
        "a": "b",
        f"{prefix}proxy-body-size": str(settings.server.max_body_bytes),
        f"{prefix}proxy-buffering": "off",
        f"{prefix}proxy-request-buffering": "off",
        f"{prefix}proxy-read-timeout": str(int(settings.timeouts.total_s)),
        f"{prefix}proxy-send-timeout": str(int(settings.timeouts.total_s)),
    } == notes


def test_an_nginx_follows_the_settings() -> None:
    config = {"server": {"host": "0.0.0.0", "max_body_bytes": 50_000_000}, "timeouts": {"total_s": 90.5}}
    own = {"nginx.ingress.kubernetes.io/proxy-send-timeout": "5"}
    release = install(tiny(config=config, ingress={"enabled": True, "preset": "nginx", "annotations": own}))
    notes = release.one("Ingress")["metadata"]["annotations"]

    assert ["50000000", "91", "5"] == [
        notes[f"nginx.ingress.kubernetes.io/{name}"]
        for name in ("proxy-body-size", "proxy-read-timeout", "proxy-send-timeout")
    ]


@each_release
def test_only_what_wants_a_key_is_outside(release: Release) -> None:
    """Routes and ingresses lead to /v1, and to the gateway's own Service and port, or to the pool of its pickers."""
    service = next(
        each for each in release.of("Service") if not each["metadata"]["name"].endswith(("-pods", "-valkey"))
    )
    name, port = service["metadata"]["name"], service["spec"]["ports"][0]["port"]
    for ingress in release.of("Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                assert ("/v1", name) == (path["path"], path["backend"]["service"]["name"])
    for route in release.of("HTTPRoute"):
        for rule in route["spec"]["rules"]:
            assert [{"path": {"type": "PathPrefix", "value": "/v1"}}] == rule["matches"]
            if release.of("InferencePool"):
                assert ["InferencePool"] == [each["kind"] for each in rule["backendRefs"]]
            else:
                assert [{"name": name, "port": port}] == rule["backendRefs"]
            assert {"request": "0s", "backendRequest": "0s"} == rule["timeouts"]


# ---- who watches


@pytest.fixture(scope="module")
def metric_names() -> set[str]:
    """Those that a gateway shows, as they are written in a query."""
    names = metric_families(install(tiny()).settings)
    return names | {f"{name}_total" for name in names}


@each_release
def test_metrics_in_queries_are_those_of_the_gateway(release: Release, metric_names: set[str]) -> None:
    """A query for another name would never answer, and no one would notice."""
    queries = [
        trigger["metadata"]["query"]
        for scaled in release.of("ScaledObject")
        for trigger in scaled["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    ]
    queries += [
        metric["pods"]["metric"]["name"]
        for scaler in release.of("HorizontalPodAutoscaler")
        for metric in scaler["spec"]["metrics"]
        if metric["type"] == "Pods"
    ]
    used = {name for query in queries for name in re.findall(r"\bwarmgate_\w+", query)}

    assert set() == used - metric_names
    assert all(re.search(r"\bwarmgate_\w+", query) for query in queries)


@each_release
def test_the_labels_of_a_query_are_those_that_a_scrape_leads_to(release: Release) -> None:
    """Prometheus names the Service that a ServiceMonitor found: the one with a port for each pod."""
    for monitor in release.of("ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        found = [
            each["metadata"]["name"] for each in release.of("Service") if wanted <= each["metadata"]["labels"].items()
        ]
        name = release.one("Deployment")["metadata"]["name"]
        assert [f"{name}-pods"] == found
    for scaled in release.of("ScaledObject"):
        query = scaled["spec"]["triggers"][0]["metadata"]["query"]
        name = release.one("Deployment")["metadata"]["name"]
        assert {f'namespace="{NAMESPACE}"', f'service="{name}-pods"'} <= set(re.findall(r'\w+="[^"]*"', query))


# ---- helm test


def test_the_pod_of_helm_test_runs_what_is_in_the_chart() -> None:
    """Whole, and against this release."""
    (pod,) = RELEASES["eks-alb"].of("Pod")
    container = pod["spec"]["containers"][0]
    script = (CHART / "files" / "answers.py").read_text(encoding="utf-8")

    assert "test" == pod["metadata"]["annotations"]["helm.sh/hook"]
    assert ast.dump(ast.parse(script)) == ast.dump(ast.parse(container["args"][0]))
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert {"GATEWAY": f"http://warmgate.{NAMESPACE}:80", "MODEL": "llama-70b", "KEY": None} == variables


def test_every_example_of_values_says_what_it_is_for() -> None:
    """In its first line."""
    for path in sorted(Path(CHART / "values-examples").glob("*.yaml")):
        assert path.read_text(encoding="utf-8").startswith("# ")


# ---- names that every chart has, and the former ones


def test_an_old_name_means_what_the_new_one_means() -> None:
    """The notes say which names are old."""
    route = {"enabled": True, "parentRefs": [{"name": "gateway"}]}
    header = [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x-end-user"]}}]
    matches = [{"path": {"type": "PathPrefix", "value": "/v1/chat"}}]
    old = install(
        tiny(
            replicas=3,
            probes={"liveness": {"failureThreshold": 9}},
            ingress={"enabled": True, "hosts": ["a.example.com"], "paths": ["/v1/chat"]},
            httpRoute={**route, "paths": ["/v1/chat"], "filters": header},
        )
    )
    new = install(
        tiny(
            replicaCount=3,
            livenessProbe={"failureThreshold": 9},
            ingress={"enabled": True, "hosts": [{"host": "a.example.com", "paths": [{"path": "/v1/chat"}]}]},
            httpRoute={**route, "rules": [{"matches": matches, "filters": header}]},
        )
    )

    assert 3 == new.one("Deployment")["spec"]["replicas"]
    assert {"failureThreshold": 9, "periodSeconds": 10} == {
        name: new.container["livenessProbe"][name] for name in ("failureThreshold", "periodSeconds")
    }
    assert [("a.example.com", "/v1/chat", "Prefix")] == [
        (rule["host"], path["path"], path["pathType"])
        for rule in new.one("Ingress")["spec"]["rules"]
        for path in rule["http"]["paths"]
    ]
    assert matches == new.one("HTTPRoute")["spec"]["rules"][0]["matches"]
    assert old.manifests == new.manifests
    assert "replicas is now replicaCount." in old.notes
    assert "probes.liveness is now livenessProbe." in old.notes
    assert "ingress.hosts[0] is now {host: a.example.com, paths: [...]}." in old.notes
    assert "httpRoute.filters is now part of httpRoute.rules." in old.notes
    assert "old names" not in new.notes


def test_an_ingress_takes_paths_of_each_host() -> None:
    hosts = [
        {"host": "a.example.com", "paths": [{"path": "/v1/models", "pathType": "Exact"}]},
        {"host": "b.example.com"},
    ]
    ingress = install(tiny(ingress={"enabled": True, "hosts": hosts})).one("Ingress")

    assert [("a.example.com", "/v1/models", "Exact"), ("b.example.com", "/v1", "Prefix")] == [
        (rule["host"], path["path"], path["pathType"])
        for rule in ingress["spec"]["rules"]
        for path in rule["http"]["paths"]
    ]


def test_a_rule_of_a_route_may_name_another_backend() -> None:
    """What a rule has itself is not replaced."""
    rule = {"backendRefs": [{"name": "other", "port": 80}], "timeouts": {"request": "60s"}}
    route = {"enabled": True, "parentRefs": [{"name": "gateway"}], "rules": [rule]}

    assert [rule] == install(tiny(httpRoute=route)).one("HTTPRoute")["spec"]["rules"]


def test_common_labels_are_on_every_object_and_in_no_selector() -> None:
    """A label that selects pods cannot be replaced."""
    labels = {"cost-center": "42", "app.kubernetes.io/name": "other"}
    release = install(tiny(commonLabels=labels, valkey={"enabled": True}, ingress={"enabled": True}))

    assert {"42"} == {each["metadata"]["labels"]["cost-center"] for each in release.manifests}
    assert {"warmgate"} == {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in release.manifests}
    assert "42" == release.one("Deployment")["spec"]["template"]["metadata"]["labels"]["cost-center"]
    assert "cost-center" not in release.one("Deployment")["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("repository", "image"),
    [
        ("registry.example.com/team/warmgate", "mirror:5000/team/warmgate:0.2.0"),
        ("team/warmgate", "mirror:5000/team/warmgate:0.2.0"),
        ("localhost/warmgate", "mirror:5000/warmgate:0.2.0"),
        ("warmgate", "mirror:5000/warmgate:0.2.0"),
    ],
)
def test_a_global_registry_replaces_that_of_every_image(repository: str, image: str) -> None:
    values = tiny(image={"repository": repository}, valkey={"enabled": True})
    release = install({**values, "global": {"imageRegistry": "mirror:5000"}})

    assert image == release.container["image"]
    assert ["mirror:5000/valkey/valkey:8.1"] == [
        each["image"] for each in release.one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    ]


def test_a_hook_of_the_values_stands_beside_the_sleep() -> None:
    hook = {"exec": {"command": ["true"]}}

    assert {"preStop": {"sleep": {"seconds": 5}}, "postStart": hook} == install(
        tiny(lifecycle={"postStart": hook})
    ).container["lifecycle"]
    assert {"preStop": hook} == install(tiny(lifecycle={"preStop": hook})).container["lifecycle"]
