# Nothing here is looked up in the account while planning, so that a plan can be made, read and tested without
# credentials (tests/deploy/test_terraform.py).

variable "region" {
  description = "Region of the cluster, of the cache, and from which Bedrock is called."
  type        = string
}

variable "account_id" {
  description = "Account that owns the inference profiles: this one."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id has twelve digits."
  }
}

variable "partition" {
  description = "aws, aws-us-gov or aws-cn."
  type        = string
  default     = "aws"
}

variable "name" {
  description = "Begins the name of everything that is made here."
  type        = string
  default     = "warmgate"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,30}$", var.name))
    error_message = "name begins with a letter and has at most 31 lower case letters, digits and dashes."
  }
}

variable "tags" {
  description = "On everything that can be tagged."
  type        = map(string)
  default     = {}
}

# The cluster: one that is there, or a new one.

variable "create_cluster" {
  description = "Make a VPC and an EKS Auto Mode cluster in it. Else the five below describe the one that is there."
  type        = bool
  default     = false
}

variable "cluster_name" {
  description = "Name of the cluster; also of a new one."
  type        = string
}

variable "vpc_id" {
  description = "VPC of the cluster that is there."
  type        = string
  default     = null
}

variable "private_subnet_ids" {
  description = "Subnets of that VPC in at least two zones, for the cache."
  type        = list(string)
  default     = []
}

variable "cluster_security_group_id" {
  description = "The security group that EKS has made for that cluster: its pods may reach the cache, nobody else."
  type        = string
  default     = null
}

variable "kubernetes_version" {
  description = "Of a new cluster."
  type        = string
  default     = "1.33"
}

variable "zones" {
  description = "Availability zones of a new cluster, at least two."
  type        = list(string)
  default     = []
}

variable "vpc_cidr" {
  description = "Addresses of a new VPC. Each zone has a sixteenth of them for pods, and a 256th for the way out."
  type        = string
  default     = "10.64.0.0/16"
}

variable "nat_per_zone" {
  description = "A NAT gateway in every zone of a new VPC; false: one for all, cheaper, and gone with its zone."
  type        = bool
  default     = true
}

variable "interface_endpoints" {
  description = "Services of AWS that a new VPC reaches without the internet. eks-auth is what Pod Identity asks."
  type        = set(string)
  default     = ["bedrock-runtime", "eks-auth", "sts"]
}

variable "public_api_cidrs" {
  description = "Networks from which a new cluster's API may be reached; empty: only from the VPC."
  type        = list(string)
  default     = []
}

variable "cluster_admin_arns" {
  description = "Roles or users that administer a new cluster."
  type        = set(string)
  default     = []
}

variable "karpenter_interruption_queue" {
  description = "Make the queue from which a Karpenter that you run yourself hears of Spot interruptions. Auto Mode has its own."
  type        = bool
  default     = false
}

# The gateway's role. The names are those of the Helm chart.

variable "namespace" {
  description = "Namespace of the gateway."
  type        = string
  default     = "warmgate"
}

variable "service_account" {
  description = "Service account of the gateway."
  type        = string
  default     = "warmgate"
}

variable "bedrock_profiles" {
  description = "Inference profiles of AWS that the gateway may call: us.meta.llama3-3-70b-instruct-v1:0, global...."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for id in var.bedrock_profiles : can(regex("^[a-z-]+\\.[a-z0-9-]+\\.[A-Za-z0-9.:_-]+$", id))])
    error_message = "A profile is named by where it leads, who made the model, and the model: us.meta.llama3-3-70b-instruct-v1:0."
  }
}

variable "bedrock_application_profiles" {
  description = "Application inference profiles, by their id: the models behind each."
  type        = map(list(string))
  default     = {}

  validation {
    condition     = alltrue([for id, models in var.bedrock_application_profiles : can(regex("^[a-z0-9]+$", id)) && length(models) > 0])
    error_message = "An application inference profile is named by the last part of its ARN, and has a model."
  }

  validation {
    condition     = alltrue([for model in flatten(values(var.bedrock_application_profiles)) : can(regex("^[A-Za-z0-9.:_-]+$", model))])
    error_message = "A model is named in full: no * and no ?."
  }
}

variable "bedrock_models" {
  description = "Models that the gateway calls by their own id, in this region: openai.gpt-oss-120b-1:0."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for id in var.bedrock_models : can(regex("^[A-Za-z0-9.:_-]+$", id))])
    error_message = "A model is named in full: no * and no ?."
  }
}

variable "bedrock_guardrail_arn" {
  description = "A guardrail that calls may name; null: none."
  type        = string
  default     = null
}

# What the gateways share.

variable "create_valkey" {
  description = "Make an ElastiCache for Valkey, for keys, limits and ledger of several gateways."
  type        = bool
  default     = true
}

variable "valkey_node_type" {
  description = "Size of its nodes."
  type        = string
  default     = "cache.t4g.small"
}

variable "valkey_replicas" {
  description = "Replicas beside the primary, in other zones; 0 gives up the failover."
  type        = number
  default     = 1
}

variable "valkey_auth_token" {
  description = "Password of the cache, 16 to 128 characters; null: whoever reaches it may use it. It is kept in Terraform's state."
  type        = string
  default     = null
  sensitive   = true
}

variable "valkey_snapshot_days" {
  description = "Days that its daily snapshots are kept; 0: none are made."
  type        = number
  default     = 7
}
