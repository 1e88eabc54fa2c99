# What the gateway's pods may do in AWS: call the named models of Bedrock, and nothing else.

locals {
  arn_of_bedrock = "arn:${var.partition}:bedrock"

  # A profile's id is that of its model behind a word for where it leads.
  models_by_profile = merge(
    {
      for id in var.bedrock_profiles :
      "${local.arn_of_bedrock}:${var.region}:${var.account_id}:inference-profile/${id}" => [regex("^[a-z-]+\\.(.+)$", id)[0]]
    },
    {
      for id, models in var.bedrock_application_profiles :
      "${local.arn_of_bedrock}:${var.region}:${var.account_id}:application-inference-profile/${id}" => models
    },
  )
  profile_arns         = sort(keys(local.models_by_profile))
  models_behind        = sort(distinct(flatten(values(local.models_by_profile))))
  calls_bedrock        = length(local.profile_arns) + length(var.bedrock_models) > 0
  actions_of_inference = ["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"]
}

data "aws_iam_policy_document" "gateway_trust" {
  statement {
    sid     = "PodIdentity"
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }

    # EKS sets these tags on the session: no other pod of the account's clusters gets the role.
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/eks-cluster-name"
      values   = [local.cluster_name]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/kubernetes-namespace"
      values   = [var.namespace]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/kubernetes-service-account"
      values   = [var.service_account]
    }
  }
}

data "aws_iam_policy_document" "gateway" {
  dynamic "statement" {
    for_each = length(local.profile_arns) > 0 ? [1] : []

    content {
      sid       = "CallProfiles"
      actions   = local.actions_of_inference
      resources = local.profile_arns
    }
  }

  # A call through a profile is checked a second time against the model, in the region that it goes to; the profile of
  # the whole world has no region there, and * stands for that too. Without the condition this would also allow calls
  # of the models by themselves, everywhere.
  dynamic "statement" {
    for_each = length(local.profile_arns) > 0 ? [1] : []

    content {
      sid       = "OfWhichTheyLeadToModels"
      actions   = local.actions_of_inference
      resources = [for model in local.models_behind : "${local.arn_of_bedrock}:*::foundation-model/${model}"]

      condition {
        test     = "StringEquals"
        variable = "bedrock:InferenceProfileArn"
        values   = local.profile_arns
      }
    }
  }

  dynamic "statement" {
    for_each = length(var.bedrock_models) > 0 ? [1] : []

    content {
      sid       = "CallModelsHere"
      actions   = local.actions_of_inference
      resources = [for model in var.bedrock_models : "${local.arn_of_bedrock}:${var.region}::foundation-model/${model}"]
    }
  }

  dynamic "statement" {
    for_each = var.bedrock_guardrail_arn == null ? [] : [var.bedrock_guardrail_arn]

    content {
      sid       = "ApplyGuardrail"
      actions   = ["bedrock:ApplyGuardrail"]
      resources = [statement.value]
    }
  }
}

resource "aws_iam_role" "gateway" {
  name               = "${var.name}-gateway"
  description        = "The pods of Warmgate: inference at Bedrock."
  assume_role_policy = data.aws_iam_policy_document.gateway_trust.json
}

resource "aws_iam_role_policy" "gateway" {
  count = local.calls_bedrock ? 1 : 0

  name   = "bedrock"
  role   = aws_iam_role.gateway.id
  policy = data.aws_iam_policy_document.gateway.json
}

resource "aws_eks_pod_identity_association" "gateway" {
  cluster_name    = local.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.gateway.arn
}
