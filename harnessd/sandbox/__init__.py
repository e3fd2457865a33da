"""Floor 2, sandbox: where commands run, and what they can reach."""
