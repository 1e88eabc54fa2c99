# The VPC of a new cluster: in each zone a private subnet for nodes and pods, and a public one for the way out.

locals {
  zones              = var.create_cluster ? { for i, zone in var.zones : zone => i } : {}
  nat_zones          = var.create_cluster ? toset(var.nat_per_zone ? var.zones : slice(var.zones, 0, min(1, length(var.zones)))) : toset([])
  vpc_id             = var.create_cluster ? aws_vpc.this[0].id : var.vpc_id
  private_subnet_ids = var.create_cluster ? [for zone in var.zones : aws_subnet.private[zone].id] : var.private_subnet_ids
}

check "zones" {
  assert {
    condition     = !var.create_cluster || length(var.zones) >= 2
    error_message = "A new cluster needs at least two zones."
  }
}

resource "aws_vpc" "this" {
  count = var.create_cluster ? 1 : 0

  cidr_block           = var.vpc_cidr
  enable_dns_hostnames = true # the names of the endpoints below
  enable_dns_support   = true

  tags = { Name = var.cluster_name }
}

resource "aws_subnet" "private" {
  for_each = local.zones

  vpc_id            = aws_vpc.this[0].id
  availability_zone = each.key
  cidr_block        = cidrsubnet(var.vpc_cidr, 4, each.value)

  # By the first of these load balancers find it, by the second the NodeClasses of ../karpenter.
  tags = {
    Name                              = "${var.cluster_name}-private-${each.key}"
    "kubernetes.io/role/internal-elb" = "1"
    "karpenter.sh/discovery"          = var.cluster_name
  }
}

resource "aws_subnet" "public" {
  for_each = local.zones

  vpc_id            = aws_vpc.this[0].id
  availability_zone = each.key
  cidr_block        = cidrsubnet(var.vpc_cidr, 8, 240 + each.value)

  tags = {
    Name                     = "${var.cluster_name}-public-${each.key}"
    "kubernetes.io/role/elb" = "1"
  }
}

resource "aws_internet_gateway" "this" {
  count = var.create_cluster ? 1 : 0

  vpc_id = aws_vpc.this[0].id
}

resource "aws_route_table" "public" {
  count = var.create_cluster ? 1 : 0

  vpc_id = aws_vpc.this[0].id

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.this[0].id
  }
}

resource "aws_route_table_association" "public" {
  for_each = local.zones

  subnet_id      = aws_subnet.public[each.key].id
  route_table_id = aws_route_table.public[0].id
}

resource "aws_eip" "nat" {
  for_each = local.nat_zones

  domain = "vpc"
}

resource "aws_nat_gateway" "this" {
  for_each = local.nat_zones

  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.public[each.key].id

  depends_on = [aws_internet_gateway.this]
}

resource "aws_route_table" "private" {
  for_each = local.zones

  vpc_id = aws_vpc.this[0].id

  route {
    cidr_block     = "0.0.0.0/0"
    nat_gateway_id = aws_nat_gateway.this[var.nat_per_zone ? each.key : var.zones[0]].id
  }
}

resource "aws_route_table_association" "private" {
  for_each = local.zones

  subnet_id      = aws_subnet.private[each.key].id
  route_table_id = aws_route_table.private[each.key].id
}

# Weights of models come from S3, and layers of images from ECR's buckets: hundreds of GB that no NAT gateway should bill.
resource "aws_vpc_endpoint" "s3" {
  count = var.create_cluster ? 1 : 0

  vpc_id            = aws_vpc.this[0].id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = [for table in aws_route_table.private : table.id]
}

resource "aws_security_group" "endpoints" {
  count = var.create_cluster ? 1 : 0

  name        = "${var.name}-endpoints"
  description = "Endpoints of AWS services: from the VPC only"
  vpc_id      = aws_vpc.this[0].id
}

resource "aws_vpc_security_group_ingress_rule" "endpoints" {
  count = var.create_cluster ? 1 : 0

  security_group_id = aws_security_group.endpoints[0].id
  description       = "Nodes and pods"
  cidr_ipv4         = var.vpc_cidr
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_endpoint" "interface" {
  for_each = var.create_cluster ? var.interface_endpoints : toset([])

  vpc_id              = aws_vpc.this[0].id
  service_name        = "com.amazonaws.${var.region}.${each.value}"
  vpc_endpoint_type   = "Interface"
  private_dns_enabled = true
  subnet_ids          = local.private_subnet_ids
  security_group_ids  = [aws_security_group.endpoints[0].id]
}
