"""Floor 2, journal: a session's permanent record."""
