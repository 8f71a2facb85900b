"""What runs managers: the demo, the jobs of a file, a cluster; and what such a run came to."""
