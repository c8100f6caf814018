"""The job that asks for storage: its script or jobspec, and the wishes of its user."""
