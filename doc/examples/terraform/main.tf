# A volume that two hosts share, without Compute. The cloud is that of clouds.yaml or OS_... variables.
terraform {
  required_providers {
    openstack = {
      source  = "terraform-provider-openstack/openstack"
      version = "~> 3.0"
    }
  }
}

variable "cloud" {
  description = "Entry in clouds.yaml"
  type        = string
}

variable "hosts" {
  description = "The hosts that share the volume: name, and name as an iSCSI initiator"
  type        = map(string)
  default = {
    host-a = "iqn.2026-01.org.example:host-a"
    host-b = "iqn.2026-01.org.example:host-b"
  }
}

provider "openstack" {
  cloud = var.cloud
}

resource "openstack_blockstorage_volume_type_v3" "shared" {
  name = "shared"
  extra_specs = {
    multiattach = "<is> True"
  }
}

resource "openstack_blockstorage_volume_v3" "shared" {
  name        = "shared"
  size        = 1
  volume_type = openstack_blockstorage_volume_type_v3.shared.name
}

# One mode for all: the requests that the provider sends know only one for a volume.
resource "openstack_blockstorage_volume_attach_v3" "shared" {
  for_each = var.hosts

  volume_id   = openstack_blockstorage_volume_v3.shared.id
  host_name   = each.key
  initiator   = each.value
  attach_mode = "rw"
  device      = "auto"
}

# Where each host logs in, and with which credential.
output "connections" {
  value     = { for host, attachment in openstack_blockstorage_volume_attach_v3.shared : host => attachment.data }
  sensitive = true
}
