"""What the policies share that start trials at once, by preempting best-effort jobs where they must."""
