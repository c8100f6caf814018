"""Copies of trees into a store and out of it: parallel, verified, and resumed after whatever ended them."""
