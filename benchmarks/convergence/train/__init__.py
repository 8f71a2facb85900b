"""Trains small real models and records their curves."""
