"""What turns, starts, idle sessions and tool calls cost: `python -m benchmarks.turns`, `python -m benchmarks.tools`."""
