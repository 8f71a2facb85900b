"""What the webhook does to a pod: pure, but for its routes."""
