"""Looking at pods without a sidecar, and touching nothing."""
