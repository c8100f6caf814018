"""Stores whose servers and mounts are on several hosts."""
