"""What runs came to: figures of a run, their means over seeds, policies side by side."""
