"""Follow a file that grows: its lines in order, whatever happens to it, and which file a path means."""
