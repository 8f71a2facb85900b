"""The one function of the product, `step(state, event, now) -> (state, actions)`, and its parts."""
