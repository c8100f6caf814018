"""What a visitor may change: what each change would do, one module a kind, and confirmations that hold once."""
