"""Interference factors for tests of sharing."""

from weir.provisioning.sharing.interference_factors import Factor, FactorTable

CLASSES = ("calm", "loud", "strange")
TABLE = FactorTable(
    source="test",
    conditions="none",
    factors=tuple(
        Factor(one=one, other=other, same_node=same, processes=processes, slowdown=base + same * 0.5 + processes / 100)
        for one, other, base in (
            ("calm", "calm", 1.05),
            ("calm", "loud", 1.6),
            ("loud", "calm", 1.1),
            ("loud", "loud", 2.0),
        )
        for same in (True, False)
        for processes in (1, 16)
    ),
)
"""Factors of two classes; the third was never measured."""
