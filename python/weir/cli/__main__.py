"""`python -m weir.cli` is the program `weir`."""

from weir.cli import main

main()
