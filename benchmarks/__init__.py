"""What a turn, a start and an idle session cost; run with `python -m benchmarks.turns`."""
