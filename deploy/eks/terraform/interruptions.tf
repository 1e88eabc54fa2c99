# For a Karpenter that you run yourself (settings.interruptionQueue of its chart): notices of EC2, in a queue.

locals {
  # What Karpenter understands: source and detail-type of events.
  interruptions = var.karpenter_interruption_queue ? {
    health    = { source = "aws.health", what = "AWS Health Event" }
    rebalance = { source = "aws.ec2", what = "EC2 Instance Rebalance Recommendation" }
    spot      = { source = "aws.ec2", what = "EC2 Spot Instance Interruption Warning" }
    state     = { source = "aws.ec2", what = "EC2 Instance State-change Notification" }
  } : {}
  interruption_queue = "${var.name}-interruptions"
}

resource "aws_sqs_queue" "interruptions" {
  count = var.karpenter_interruption_queue ? 1 : 0

  name                      = local.interruption_queue
  message_retention_seconds = 300 # an older notice is about a node that is gone
  sqs_managed_sse_enabled   = true
}

data "aws_iam_policy_document" "interruptions" {
  count = var.karpenter_interruption_queue ? 1 : 0

  statement {
    actions   = ["sqs:SendMessage"]
    resources = ["arn:${var.partition}:sqs:${var.region}:${var.account_id}:${local.interruption_queue}"]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [for name in sort(keys(local.interruptions)) : "arn:${var.partition}:events:${var.region}:${var.account_id}:rule/${var.name}-${name}"]
    }
  }
}

resource "aws_sqs_queue_policy" "interruptions" {
  count = var.karpenter_interruption_queue ? 1 : 0

  queue_url = aws_sqs_queue.interruptions[0].id
  policy    = data.aws_iam_policy_document.interruptions[0].json
}

resource "aws_cloudwatch_event_rule" "interruptions" {
  for_each = local.interruptions

  name          = "${var.name}-${each.key}"
  event_pattern = jsonencode({ source = [each.value.source], "detail-type" = [each.value.what] })
}

resource "aws_cloudwatch_event_target" "interruptions" {
  for_each = local.interruptions

  rule = aws_cloudwatch_event_rule.interruptions[each.key].name
  arn  = aws_sqs_queue.interruptions[0].arn
}
