"""Floor 1, facts: what happened, what is true now, what a screen needs, what may be asked. Pure."""
