"""Jobs that ask for storage, for tests of provisioning."""

JOBSPEC = """\
version: 1
resources:
  - type: node
    count: 4
    with:
      - type: slot
        count: 2
        label: ranks
        with:
          - {type: core, count: 8}
tasks:
  - command: ["vpic", "--particles", "8M"]
    slot: ranks
    count: {per_slot: 3}
attributes:
  system:
    duration: 3600.0
    cwd: /home/ada
  user:
    weir: {policy: utilization, size: 4TB}
"""
"""Four nodes with two slots of three tasks each."""

SCHEMA = """\
{"name": "run-7", "identity": "small-write-light-sequential-posix", "behaviour_class": "writers", "sslo": "fast",
 "policy": "interference", "system": {"kind": "%s", "device": "nvme", "servers": 2, "targets_per_server": 1},
 "servers": [{"node": "node1", "devices": ["/nvme0"], "target_bytes": 1073741824},
             {"node": "node2", "devices": ["/nvme0"], "target_bytes": 1073741824}],
 "shareable": true, "lease_seconds": 600.0, "size_bytes": 1000000000, "expected": {"write_bytes_per_second": 2e9}}
"""
"""A deployment on two nodes; the kind of its system stands for itself."""

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=vpic --nodes=4
#SBATCH --ntasks-per-node 16
#SBATCH -t 1-02:30:00   # a day and some hours
#WEIR policy=utilization size=4TB
# as any comment

srun vpic --particles 8M
#SBATCH --nodes=400
"""
"""Four nodes with 16 tasks each; options behind the first command do not count."""

RESOURCES = """\
source = "a cluster for tests"

[[nodes]]
name = "node1"
network_bytes_per_second = 5_000_000_000
devices = [
  {path = "/nvme", kind = "nvme", capacity_bytes = 2_000_000_000_000, free_bytes = 1_500_000_000_000},
  {path = "/ssd", kind = "ssd", capacity_bytes = 1_000_000_000_000, read_bytes_per_second = 500e6},
]

[[nodes]]
name = "node2"
network_bytes_per_second = 5_000_000_000
free_in_seconds = 600
devices = [
  {path = "/nvme", kind = "nvme", capacity_bytes = 2_000_000_000_000},
  {kind = "memory", capacity_bytes = 64_000_000_000},
]

[[nodes]]
name = "node3"
usable = false

[[deployments]]
[deployments.deployment]
name = "shared"
identity = "medium-write-light-sequential-posix"
behaviour_class = "medium-write-light-sequential-posix"
sslo = "write-large"
policy = "interference"
system = {device = "nvme", servers = 2}
servers = [{node = "node4", devices = ["/nvme"], target_bytes = 1_000_000_000_000}]
shareable = true
size_bytes = 1_000_000_000_000
expected = {write_bytes_per_second = 3_000_000_000.0}
"""
"""Two nodes that serve, one that is down, and a deployment that may be shared."""
