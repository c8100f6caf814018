"""`weir run`: a program on a store."""
