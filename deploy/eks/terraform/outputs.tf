output "gateway_role_arn" {
  description = "Role of the gateway's pods. They get it by the association: the chart needs no annotation."
  value       = aws_iam_role.gateway.arn
}

output "store_url" {
  description = "store.url of the gateway; with an auth token, put :TOKEN@ before the host, in a Secret."
  value       = var.create_valkey ? "rediss://${aws_elasticache_replication_group.valkey[0].primary_endpoint_address}:6379/0" : null
}

output "cluster_name" {
  description = "Of the cluster that the gateway runs in."
  value       = local.cluster_name
}

output "node_role_name" {
  description = "Role of a new cluster's nodes, for the NodeClasses in ../karpenter/auto-mode."
  value       = var.create_cluster ? aws_iam_role.node[0].name : null
}

output "interruption_queue" {
  description = "settings.interruptionQueue of Karpenter's chart."
  value       = var.karpenter_interruption_queue ? aws_sqs_queue.interruptions[0].name : null
}
