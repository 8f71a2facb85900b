"""Courses of events and their expected results, for any backend that carries the orders out."""
