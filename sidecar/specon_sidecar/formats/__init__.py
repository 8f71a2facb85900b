"""Log bytes -> samples: one small module per family of text formats, one table, and a detection."""
