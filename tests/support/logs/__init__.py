"""Logs as trainers write them."""
