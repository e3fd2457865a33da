"""Floor 3, permissions: who may do what, and why."""
