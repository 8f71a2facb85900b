"""What writes the generated files of the project; nothing that is installed needs it."""
