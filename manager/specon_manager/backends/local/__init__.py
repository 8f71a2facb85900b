"""Virtual nodes and virtual pods on one machine: real processes, no root, no cluster, no network."""
