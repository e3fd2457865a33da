"""Floor 6, loop: think, act, observe, until a reason to end."""
