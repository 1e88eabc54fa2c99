# Keys, limits and ledger of several gateways. One shard: a gateway reaches it by one address, whoever is the primary.

resource "aws_security_group" "valkey" {
  count = var.create_valkey ? 1 : 0

  name        = "${var.name}-valkey"
  description = "Valkey of Warmgate: from the pods of the cluster only"
  vpc_id      = local.vpc_id
}

# No rule lets anything out: a cache calls nobody.
resource "aws_vpc_security_group_ingress_rule" "valkey" {
  count = var.create_valkey ? 1 : 0

  security_group_id            = aws_security_group.valkey[0].id
  description                  = "The gateways"
  referenced_security_group_id = local.cluster_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = 6379
  to_port                      = 6379
}

resource "aws_elasticache_subnet_group" "valkey" {
  count = var.create_valkey ? 1 : 0

  name       = "${var.name}-valkey"
  subnet_ids = local.private_subnet_ids
}

# A key or a count that is evicted is a key that stops working, or a budget that is spent again: better an error.
resource "aws_elasticache_parameter_group" "valkey" {
  count = var.create_valkey ? 1 : 0

  name        = "${var.name}-valkey8"
  description = "Nothing is evicted"
  family      = "valkey8"

  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }
}

resource "aws_elasticache_replication_group" "valkey" {
  count = var.create_valkey ? 1 : 0

  replication_group_id       = "${var.name}-valkey"
  description                = "Keys, limits and ledger of Warmgate"
  engine                     = "valkey"
  engine_version             = "8.0"
  parameter_group_name       = aws_elasticache_parameter_group.valkey[0].name
  node_type                  = var.valkey_node_type
  num_cache_clusters         = 1 + var.valkey_replicas
  automatic_failover_enabled = var.valkey_replicas > 0
  multi_az_enabled           = var.valkey_replicas > 0
  port                       = 6379
  subnet_group_name          = aws_elasticache_subnet_group.valkey[0].name
  security_group_ids         = [aws_security_group.valkey[0].id]
  transit_encryption_enabled = true
  transit_encryption_mode    = "required"
  at_rest_encryption_enabled = true
  auth_token                 = var.valkey_auth_token
  snapshot_retention_limit   = var.valkey_snapshot_days
  apply_immediately          = true
}
