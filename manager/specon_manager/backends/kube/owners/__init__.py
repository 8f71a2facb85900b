"""How each kind of owner lets one of its pods go, and comes to create the next: a module for each way."""
