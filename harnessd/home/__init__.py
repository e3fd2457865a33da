"""Floor 2, home: one agent's directory, how it is read, and the one door through which it changes."""
