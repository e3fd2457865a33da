"""harnessd: a daemon in which AI agents live, each in a home under git."""

__version__ = "0.1.0"
