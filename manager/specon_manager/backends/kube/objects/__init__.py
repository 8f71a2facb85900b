"""What objects say: pods, their owners, annotations, requests and volumes, read and bounded. Pure.

The ground floor of the backend: every other room stands on it, and it knows none of them.
"""
