"""What people see of a state, as rows, labels and words: one of each for every screen, page and list. Pure."""
