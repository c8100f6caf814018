"""The experiments of Qiao et al., "Taming I/O variation on QoS-less HPC storage" (IPDPS 2021): parts of `adapt.py`."""
