"""Courses of events with what is to come of each, whoever carries the orders out."""
