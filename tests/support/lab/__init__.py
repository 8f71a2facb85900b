"""Simulations, their outcomes and what must be true of them."""
