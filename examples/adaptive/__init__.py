"""The analyses of the paper on adaptive reading, and fields to try them on.

Qiao et al., "Taming I/O variation on QoS-less HPC storage" (IPDPS 2021), table 6: blob detection (XGC), rendering
(GenASiS) and the area of high pressure (Jet). Each compares the features of an approximation with those of the
original. The analyses need NumPy, SciPy and scikit-image.
"""
