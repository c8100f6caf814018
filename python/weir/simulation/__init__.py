"""The simulator from Python: topologies, workloads, scenarios and their runs in virtual time."""
