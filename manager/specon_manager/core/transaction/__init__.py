"""Transactions within the state: how they begin, go on, turn back and end."""
