"""The resident service that plans storage for jobs and keeps their deployments through their lives: `weir planner`."""
