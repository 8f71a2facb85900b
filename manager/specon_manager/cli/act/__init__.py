"""What asks something of a manager: jobs, moves, an empty node, a pause."""
