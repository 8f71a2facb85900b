"""What people see of a state, as rows, labels and words: one of each for all screens. Pure."""
