"""What others are told: events on objects, annotations for other controllers."""
