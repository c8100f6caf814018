"""Workloads: the work of jobs, from generators, logs and traces, and the times at which jobs arrive."""
