"""For all tests."""

from hypothesis import settings

# How long an example takes depends on what else the machine does; what is slow is for the benchmarks to find.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
