"""Floor 10, cli: the command tree and what it prints."""
