"""What `terraform apply` would make, by plans that need neither credentials nor a network."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.tools import missing, tool

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "deploy" / "eks" / "terraform"
CHART = ROOT / "deploy" / "helm" / "warmgate"
PROVIDER = "registry.terraform.io/hashicorp/aws"
MIRRORS = ("/opt/tf-plugins", "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins")
"""Where Terraform's own documentation and distributions put one; TERRAFORM_MIRROR names another."""

OFFLINE = """
provider "aws" {
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = true
}
"""

EXISTING = {
    "region": "eu-central-1",
    "account_id": "123456789012",
    "cluster_name": "prod",
    "vpc_id": "vpc-1",
    "private_subnet_ids": ["subnet-1", "subnet-2"],
    "cluster_security_group_id": "sg-1",
    "bedrock_profiles": ["eu.meta.llama3-3-70b-instruct-v1:0", "global.anthropic.claude-haiku-4-5-20251001-v1:0"],
}
NEW = {
    "region": "eu-central-1",
    "account_id": "123456789012",
    "cluster_name": "new",
    "create_cluster": True,
    "zones": ["eu-central-1a", "eu-central-1b", "eu-central-1c"],
    "cluster_admin_arns": ["arn:aws:iam::123456789012:role/Platform"],
}
GUARDRAIL = "arn:aws:bedrock:eu-central-1:123456789012:guardrail/abc"
INFERENCE = ["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"]


pytestmark = pytest.mark.timeout(300)  # a plan takes seconds, on a busy machine half a minute


class Terraform:
    """The module in a folder of its own, initialized from a mirror."""

    def __init__(self, folder: Path, mirror: Path) -> None:
        self._folder = folder
        for file in MODULE.glob("*.tf"):
            shutil.copy(file, folder)
        # Terraform merges what is in a file of such a name into the block of the same name.
        (folder / "offline_override.tf").write_text(OFFLINE)
        config = folder / "terraform.rc"
        config.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n')
        self._environment = {
            **os.environ,
            "TF_CLI_CONFIG_FILE": str(config),
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self.run("init", "-backend=false", "-input=false")

    def run(self, *arguments: str) -> str:
        ran = self.try_to(*arguments)
        assert 0 == ran.returncode, ran.stdout + ran.stderr
        return ran.stdout

    def try_to(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [tool("terraform"), *arguments]
        if arguments[0] in ("init", "plan", "validate"):
            command.append("-no-color")
        return subprocess.run(
            command, cwd=self._folder, env=self._environment, capture_output=True, check=False, text=True, timeout=250
        )

    def plan(self, variables: Mapping[str, Any]) -> "Plan":
        self._write(variables)
        self.run("plan", "-refresh=false", "-input=false", "-lock=false", "-out=plan")
        return Plan(json.loads(self.run("show", "-json", "plan")))

    def refused(self, variables: Mapping[str, Any]) -> str:
        self._write(variables)
        ran = self.try_to("plan", "-refresh=false", "-input=false", "-lock=false")
        assert 0 != ran.returncode
        return " ".join(re.sub("[│╷╵]", " ", ran.stderr).split())

    def _write(self, variables: Mapping[str, Any]) -> None:
        (self._folder / "terraform.tfvars.json").write_text(json.dumps(variables))


class Plan:
    def __init__(self, shown: Mapping[str, Any]) -> None:
        self._shown = shown

    def kinds(self) -> set[str]:
        return {resource["type"] for resource in self._resources()}

    def all(self, kind: str) -> dict[str, dict[str, Any]]:
        """Values by address."""
        return {each["address"]: each["values"] for each in self._resources() if each["type"] == kind}

    def one(self, kind: str) -> dict[str, Any]:
        (found,) = self.all(kind).values()
        return found

    def warnings(self) -> list[str]:
        """Messages of checks that have failed."""
        checks = (instance for each in self._shown.get("checks", []) for instance in each.get("instances", []))
        return [problem["message"] for check in checks for problem in check.get("problems", [])]

    def statements(self, address: str, field: str) -> dict[str, dict[str, Any]]:
        (policy,) = (each["values"][field] for each in self._resources() if each["address"] == address)
        return {statement.get("Sid", ""): statement for statement in json.loads(policy)["Statement"]}

    def _resources(self) -> Iterator[dict[str, Any]]:
        yield from self._shown["planned_values"]["root_module"]["resources"]


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Terraform:
    tool("terraform")
    named = os.environ.get("TERRAFORM_MIRROR")
    for mirror in map(Path, [named] if named else MIRRORS):
        if (mirror / PROVIDER).is_dir():
            break
    else:
        missing("a local mirror of Terraform's AWS provider")
    return Terraform(tmp_path_factory.mktemp("terraform"), mirror)


@pytest.fixture(scope="module")
def existing(terraform: Terraform) -> Plan:
    """For a cluster that is there."""
    return terraform.plan(EXISTING)


@pytest.fixture(scope="module")
def new(terraform: Terraform) -> Plan:
    """With a cluster, and a queue for Karpenter."""
    return terraform.plan({**NEW, "karpenter_interruption_queue": True})


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_files_have_terraforms_form(terraform: Terraform) -> None:
    ran = terraform.try_to("fmt", "-check", "-diff", str(MODULE))

    assert "" == ran.stdout
    assert 0 == ran.returncode


def test_the_module_is_valid(terraform: Terraform) -> None:
    assert json.loads(terraform.run("validate", "-json"))["valid"]


def test_only_pods_of_the_gateway_get_its_role(existing: Plan) -> None:
    (statement,) = existing.statements("aws_iam_role.gateway", "assume_role_policy").values()

    assert {"Service": "pods.eks.amazonaws.com"} == statement["Principal"]
    assert ["sts:AssumeRole", "sts:TagSession"] == sorted(statement["Action"])
    assert {
        "StringEquals": {
            "aws:RequestTag/eks-cluster-name": "prod",
            "aws:RequestTag/kubernetes-namespace": "warmgate",
            "aws:RequestTag/kubernetes-service-account": "warmgate",
        }
    } == statement["Condition"]


def test_the_association_is_for_the_service_account_that_the_role_trusts(existing: Plan) -> None:
    """Those of the chart, installed as the guide says."""
    association = existing.one("aws_eks_pod_identity_association")

    assert ("prod", "warmgate", "warmgate") == tuple(
        association[field] for field in ("cluster_name", "namespace", "service_account")
    )


def test_the_charts_service_account_is_called_so() -> None:
    """It takes the name of the release where that contains the chart's: `helm install warmgate`."""
    if not CHART.is_dir():
        pytest.skip("the chart is not here")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))

    assert "warmgate" == chart["name"]
    assert "" == values["serviceAccount"]["name"]


def test_the_gateway_may_call_profiles(existing: Plan) -> None:
    """In its own region and account, with two actions."""
    statement = existing.statements("aws_iam_role_policy.gateway[0]", "policy")["CallProfiles"]

    assert INFERENCE == sorted(statement["Action"])
    assert [
        "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.meta.llama3-3-70b-instruct-v1:0",
        "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/global.anthropic.claude-haiku-4-5-20251001-v1:0",
    ] == sorted(statement["Resource"])
    assert "Condition" not in statement


def test_the_models_behind_profiles_can_be_called_through_these_only(existing: Plan) -> None:
    """In whatever region the profile leads to."""
    statement = existing.statements("aws_iam_role_policy.gateway[0]", "policy")["OfWhichTheyLeadToModels"]
    profiles = existing.statements("aws_iam_role_policy.gateway[0]", "policy")["CallProfiles"]["Resource"]
    ((key, named),) = statement["Condition"]["StringEquals"].items()

    assert INFERENCE == sorted(statement["Action"])
    assert [
        "arn:aws:bedrock:*::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0",
        "arn:aws:bedrock:*::foundation-model/meta.llama3-3-70b-instruct-v1:0",
    ] == sorted(statement["Resource"])
    assert ("bedrock:InferenceProfileArn", sorted(profiles)) == (key, sorted(named))
    assert ["StringEquals"] == list(statement["Condition"])


def test_the_gateway_may_do_nothing_else(existing: Plan) -> None:
    """No third statement, no other policy, and no resource that is only a *."""
    statements = existing.statements("aws_iam_role_policy.gateway[0]", "policy")

    assert {"CallProfiles", "OfWhichTheyLeadToModels"} == statements.keys()
    assert {"Allow"} == {statement["Effect"] for statement in statements.values()}
    assert {} == existing.all("aws_iam_role_policy_attachment")
    assert "*" not in [resource for each in statements.values() for resource in as_list(each["Resource"])]


@pytest.fixture(scope="module")
def varied(terraform: Terraform) -> Plan:
    """A model without a profile, a profile of one's own, a guardrail; and a cache without a failover."""
    return terraform.plan(
        {
            **EXISTING,
            "bedrock_profiles": [],
            "bedrock_models": ["openai.gpt-oss-120b-1:0"],
            "bedrock_application_profiles": {"x1y2": ["meta.llama3-3-70b-instruct-v1:0"]},
            "bedrock_guardrail_arn": GUARDRAIL,
            "valkey_replicas": 0,
        }
    )


def test_models_without_a_profile_are_called_in_this_region_only(varied: Plan) -> None:
    statement = varied.statements("aws_iam_role_policy.gateway[0]", "policy")["CallModelsHere"]

    assert "arn:aws:bedrock:eu-central-1::foundation-model/openai.gpt-oss-120b-1:0" == statement["Resource"]
    assert INFERENCE == sorted(statement["Action"])


def test_profiles_of_ones_own_lead_to_the_models_that_are_named(varied: Plan) -> None:
    """Their ids do not tell which these are."""
    statements = varied.statements("aws_iam_role_policy.gateway[0]", "policy")
    profile = "arn:aws:bedrock:eu-central-1:123456789012:application-inference-profile/x1y2"
    behind = statements["OfWhichTheyLeadToModels"]

    assert profile == statements["CallProfiles"]["Resource"]
    assert "arn:aws:bedrock:*::foundation-model/meta.llama3-3-70b-instruct-v1:0" == behind["Resource"]
    assert {"StringEquals": {"bedrock:InferenceProfileArn": profile}} == behind["Condition"]


def test_a_guardrail_can_be_applied(varied: Plan) -> None:
    statement = varied.statements("aws_iam_role_policy.gateway[0]", "policy")["ApplyGuardrail"]

    assert ("bedrock:ApplyGuardrail", GUARDRAIL) == (statement["Action"], statement["Resource"])


@pytest.fixture(scope="module")
def bare(terraform: Terraform) -> Plan:
    """Without Bedrock, and without knowing where the cluster is."""
    return terraform.plan({**EXISTING, "bedrock_profiles": [], "vpc_id": None})


def test_without_bedrock_the_role_may_nothing(bare: Plan) -> None:
    """There is no policy then."""
    assert {} == bare.all("aws_iam_role_policy")


def test_what_the_cache_needs_to_know_of_the_cluster_is_asked_for(bare: Plan) -> None:
    """While planning, not after half of it was made."""
    wanted = "For the cache of a cluster that is there, give vpc_id, cluster_security_group_id and two"

    assert [f"{wanted} private_subnet_ids."] == bare.warnings()


def test_nothing_is_granted_by_pattern(terraform: Terraform) -> None:
    """A mistake in a variable is refused, not widened."""
    refusal = terraform.refused(
        {
            **EXISTING,
            "account_id": "1234",
            "bedrock_profiles": ["us.meta.*"],
            "bedrock_models": ["meta.*"],
            "bedrock_application_profiles": {"abc": ["*"]},
        }
    )

    assert "account_id has twelve digits" in refusal
    assert "A profile is named by where it leads" in refusal
    assert 2 == refusal.count("A model is named in full: no * and no ?.")


def test_the_cache_evicts_nothing_and_speaks_tls_only(existing: Plan) -> None:
    """With a replica in another zone."""
    cache = existing.one("aws_elasticache_replication_group")
    (parameter,) = existing.one("aws_elasticache_parameter_group")["parameter"]

    assert ("maxmemory-policy", "noeviction") == (parameter["name"], parameter["value"])
    assert ("valkey", True, "required", "true") == tuple(
        cache[field]
        for field in (
            "engine",
            "transit_encryption_enabled",
            "transit_encryption_mode",
            "at_rest_encryption_enabled",
        )
    )
    assert (2, True, True) == tuple(
        cache[field] for field in ("num_cache_clusters", "automatic_failover_enabled", "multi_az_enabled")
    )


def test_only_the_cluster_reaches_the_cache(existing: Plan) -> None:
    rule = existing.one("aws_vpc_security_group_ingress_rule")

    assert ("sg-1", None, 6379, 6379, "tcp") == tuple(
        rule[field] for field in ("referenced_security_group_id", "cidr_ipv4", "from_port", "to_port", "ip_protocol")
    )
    assert {} == existing.all("aws_vpc_security_group_egress_rule")


def test_a_cache_without_a_replica_has_no_failover(varied: Plan) -> None:
    """ElastiCache refuses one with a single node."""
    cache = varied.one("aws_elasticache_replication_group")

    assert (1, False, False) == tuple(
        cache[field] for field in ("num_cache_clusters", "automatic_failover_enabled", "multi_az_enabled")
    )


def test_beside_a_cluster_that_is_there_nothing_else_is_made(existing: Plan) -> None:
    """No network, no cluster, no queue."""
    assert {
        "aws_eks_pod_identity_association",
        "aws_elasticache_parameter_group",
        "aws_elasticache_replication_group",
        "aws_elasticache_subnet_group",
        "aws_iam_role",
        "aws_iam_role_policy",
        "aws_security_group",
        "aws_vpc_security_group_ingress_rule",
    } == existing.kinds()
    assert [] == existing.warnings()


def test_a_new_cluster_runs_auto_mode(new: Plan) -> None:
    """Nodes, load balancers and volumes are EKS's; its API is reached from within."""
    cluster = new.one("aws_eks_cluster")

    assert (True, ["general-purpose", "system"]) == (
        cluster["compute_config"][0]["enabled"],
        sorted(cluster["compute_config"][0]["node_pools"]),
    )
    assert cluster["kubernetes_network_config"][0]["elastic_load_balancing"][0]["enabled"]
    assert cluster["storage_config"][0]["block_storage"][0]["enabled"]
    assert not cluster["bootstrap_self_managed_addons"]
    assert "API" == cluster["access_config"][0]["authentication_mode"]
    assert (True, False) == (
        cluster["vpc_config"][0]["endpoint_private_access"],
        cluster["vpc_config"][0]["endpoint_public_access"],
    )


def test_a_new_network_has_a_way_out_in_every_zone(new: Plan) -> None:
    private = {
        each["availability_zone"]: each["cidr_block"]
        for each in new.all("aws_subnet").values()
        if "kubernetes.io/role/internal-elb" in each["tags"]
    }

    assert {
        "eu-central-1a": "10.64.0.0/20",
        "eu-central-1b": "10.64.16.0/20",
        "eu-central-1c": "10.64.32.0/20",
    } == private
    assert 3 == len(new.all("aws_nat_gateway"))


@pytest.fixture(scope="module")
def cheap(terraform: Terraform) -> Plan:
    """One way out for all zones, of which there is one; no cache."""
    return terraform.plan({**NEW, "zones": ["eu-central-1a"], "nat_per_zone": False, "create_valkey": False})


def test_a_cluster_in_one_zone_is_warned_of(cheap: Plan) -> None:
    """Neither EKS nor the cache would take it."""
    assert ["A new cluster needs at least two zones."] == cheap.warnings()


def test_a_cache_need_not_be_made(cheap: Plan) -> None:
    """A single gateway keeps its keys in a file."""
    assert set() == {kind for kind in cheap.kinds() if "elasticache" in kind}


def test_bedrock_is_reached_without_the_internet(new: Plan) -> None:
    services = {
        each["service_name"].rpartition(".")[2]: each["vpc_endpoint_type"]
        for each in new.all("aws_vpc_endpoint").values()
    }

    assert {
        "bedrock-runtime": "Interface",
        "eks-auth": "Interface",
        "sts": "Interface",
        "s3": "Gateway",
    } == services


def test_nodes_of_ones_own_node_class_may_join(new: Plan) -> None:
    """Without its own entry, a role's nodes stay outside."""
    (entry,) = (each for each in new.all("aws_eks_access_entry").values() if each["type"] == "EC2")
    policies = {each["policy_arn"].rpartition("/")[2] for each in new.all("aws_eks_access_policy_association").values()}

    assert "new" == entry["cluster_name"]
    assert {"AmazonEKSAutoNodePolicy", "AmazonEKSClusterAdminPolicy"} == policies


def test_karpenter_hears_of_interruptions_from_events_only(new: Plan) -> None:
    patterns = [json.loads(each["event_pattern"]) for each in new.all("aws_cloudwatch_event_rule").values()]

    assert {
        "AWS Health Event",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Spot Instance Interruption Warning",
    } == {pattern["detail-type"][0] for pattern in patterns}
    statement = new.statements("aws_sqs_queue_policy.interruptions[0]", "policy")[""]
    assert ("sqs:SendMessage", "arn:aws:sqs:eu-central-1:123456789012:warmgate-interruptions") == (
        statement["Action"],
        statement["Resource"],
    )
    assert {"Service": "events.amazonaws.com"} == statement["Principal"]
