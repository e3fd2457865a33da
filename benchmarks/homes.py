"""The homes that the benchmarks run in."""

import subprocess
from pathlib import Path

NOTES = 1100
AGENTS = """---
description: A benchmark
model: openai/bench
mode: default
budget:
  turns: 1000000
  tokens: 1000000000000
---
# Benchmark

"""


def make_home(path: Path, *, skills: int = 0, notes: int = NOTES) -> Path:
    """A committed home with `skills` skills and `notes` notes below `work/`; returns its path."""
    (path / "work").mkdir(parents=True)
    for number in range(notes):
        (path / "work" / f"note-{number}.txt").write_text(f"This is note {number}.\n", encoding="utf-8")
    (path / "AGENTS.md").write_text(AGENTS + "You read one note after the other.\n" * 150, encoding="utf-8")
    (path / "MEMORY.md").write_text("# Memory\n\n## Facts\n\n- The notes are in work/.\n", encoding="utf-8")
    (path / "KNOWLEDGE.md").write_text("# Knowledge\n", encoding="utf-8")
    (path / "tools.json").write_text('{"mcpServers": {}}\n', encoding="utf-8")
    (path / ".gitignore").write_text("/agents/\n/work/\n", encoding="utf-8")
    for number in range(skills):
        folder = path / "skills" / f"skill-{number:03}"
        folder.mkdir(parents=True)
        header = f"name: skill-{number:03}\ndescription: Does thing {number}. Use when thing {number} is wanted."
        (folder / "SKILL.md").write_text(f"---\n{header}\n---\n" + "Do it step by step.\n" * 40, encoding="utf-8")
    identity = ["-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "Begin"]):
        subprocess.run(["git", "-C", str(path), *identity, *command], check=True)
    return path
