"""Stress tests of storage: kernels shaped as applications, run by real processes on stores and on mounted paths."""
