"""What shows a manager and changes nothing."""
