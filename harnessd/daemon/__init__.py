"""Floor 8, daemon: sessions, recovery, and the one place where everything is put together."""
