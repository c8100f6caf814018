"""Changes that a visitor may make, one module a kind, and confirmations that hold once."""
