"""TensorBoard event files: found, read as far as they are written, and their scalars made samples."""
