"""Pictures of the status page for the documentation, taken while a real run goes on."""
