"""Managers in one event loop, without processes."""
