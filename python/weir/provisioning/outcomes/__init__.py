"""Outcomes of deployments: measured, kept, and learned from, so that the plan after a wrong one is better."""
