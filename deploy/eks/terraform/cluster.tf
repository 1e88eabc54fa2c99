# An EKS Auto Mode cluster, where none is there yet: nodes, load balancers, volumes and Pod Identity are EKS's business.

locals {
  cluster_name              = var.create_cluster ? aws_eks_cluster.this[0].name : var.cluster_name
  cluster_security_group_id = var.create_cluster ? aws_eks_cluster.this[0].vpc_config[0].cluster_security_group_id : var.cluster_security_group_id

  # What EKS needs of the role to run Auto Mode, by the names of its managed policies.
  cluster_policies = var.create_cluster ? toset([
    "AmazonEKSBlockStoragePolicy",
    "AmazonEKSClusterPolicy",
    "AmazonEKSComputePolicy",
    "AmazonEKSLoadBalancingPolicy",
    "AmazonEKSNetworkingPolicy",
  ]) : toset([])
  node_policies = var.create_cluster ? toset([
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSWorkerNodeMinimalPolicy",
  ]) : toset([])
}

check "cluster" {
  assert {
    condition     = var.create_cluster || (var.vpc_id != null && var.cluster_security_group_id != null && length(var.private_subnet_ids) >= 2) || !var.create_valkey
    error_message = "For the cache of a cluster that is there, give vpc_id, cluster_security_group_id and two private_subnet_ids."
  }
}

data "aws_iam_policy_document" "cluster_trust" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["eks.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "cluster" {
  count = var.create_cluster ? 1 : 0

  name               = "${var.name}-cluster"
  assume_role_policy = data.aws_iam_policy_document.cluster_trust.json
}

resource "aws_iam_role_policy_attachment" "cluster" {
  for_each = local.cluster_policies

  role       = aws_iam_role.cluster[0].name
  policy_arn = "arn:${var.partition}:iam::aws:policy/${each.value}"
}

resource "aws_iam_role" "node" {
  count = var.create_cluster ? 1 : 0

  name               = "${var.name}-node"
  assume_role_policy = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = local.node_policies

  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${var.partition}:iam::aws:policy/${each.value}"
}

resource "aws_eks_cluster" "this" {
  count = var.create_cluster ? 1 : 0

  name                          = var.cluster_name
  version                       = var.kubernetes_version
  role_arn                      = aws_iam_role.cluster[0].arn
  bootstrap_self_managed_addons = false
  enabled_cluster_log_types     = ["api", "audit", "authenticator"]

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = false
  }

  compute_config {
    enabled       = true
    node_pools    = ["general-purpose", "system"]
    node_role_arn = aws_iam_role.node[0].arn
  }

  kubernetes_network_config {
    elastic_load_balancing {
      enabled = true
    }
  }

  storage_config {
    block_storage {
      enabled = true
    }
  }

  vpc_config {
    subnet_ids              = local.private_subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = length(var.public_api_cidrs) > 0
    public_access_cidrs     = length(var.public_api_cidrs) > 0 ? var.public_api_cidrs : null
  }

  # Without its policies it can neither come up nor be taken down.
  depends_on = [aws_iam_role_policy_attachment.cluster]
}

resource "aws_eks_access_entry" "admin" {
  for_each = var.create_cluster ? var.cluster_admin_arns : toset([])

  cluster_name  = aws_eks_cluster.this[0].name
  principal_arn = each.value
}

resource "aws_eks_access_policy_association" "admin" {
  for_each = var.create_cluster ? var.cluster_admin_arns : toset([])

  cluster_name  = aws_eks_cluster.this[0].name
  principal_arn = each.value
  policy_arn    = "arn:${var.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"

  access_scope {
    type = "cluster"
  }

  depends_on = [aws_eks_access_entry.admin]
}

# Nodes of a NodeClass of one's own (../karpenter/auto-mode) join by this entry.
resource "aws_eks_access_entry" "node" {
  count = var.create_cluster ? 1 : 0

  cluster_name  = aws_eks_cluster.this[0].name
  principal_arn = aws_iam_role.node[0].arn
  type          = "EC2"
}

resource "aws_eks_access_policy_association" "node" {
  count = var.create_cluster ? 1 : 0

  cluster_name  = aws_eks_cluster.this[0].name
  principal_arn = aws_iam_role.node[0].arn
  policy_arn    = "arn:${var.partition}:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy"

  access_scope {
    type = "cluster"
  }

  depends_on = [aws_eks_access_entry.node]
}
