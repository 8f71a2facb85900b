"""Certificates: made, kept and served."""
