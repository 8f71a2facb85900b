"""What might become of a state of a manager: the simulator, begun in the middle."""
