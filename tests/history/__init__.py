"""Histories of file operations from several hosts: their clients, their faults, and their checks."""
