"""P1: however a command is wrapped, quoted or nested, a line with it does not pass for one that reads."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.permissions.shell import judge
from harnessd.sandbox.bubblewrap import Ran, Sandbox
from tests.permissions.shell.corpus import benign

CORES = ("rm f", "touch pwned", "eval ls", "./x.sh", "python3 -c 1", "sh x", "$cmd", "make", "curl http://x")
AROUND = (
    "{}",
    "ls; {}",
    "ls\n{}",
    "{} | cat",
    "cat f | {}",
    "{} & ls",
    "true && {}",
    "( {} )",
    "{{ {}; }}",
    "if {}; then ls; fi",
    "if ls; then {}; else ls; fi",
    "for i in a b; do {}; done",
    "while {}; do break; done",
    "case x in x) {};; esac",
    "echo $({})",
    'echo "a $({}) b"',
    "echo `{}`",
    'echo "`{}`"',
    "echo ${{x:-$({})}}",
    "cat <({})",
    "x=$({})",
    "x=$({}) ls",
    "cat <<EOF\n$({})\nEOF\n",
    "cat <<EOF\n`{}`\nEOF\n",
    "cat <<'EOF'\nx\nEOF\n{}",
    "! {}",
    "time {}",
    "env {}",
    "nice -n 5 {}",
    "timeout 5 {}",
    "command {}",
    "ls | xargs {}",
    "find . -exec {} \\;",
    '[ -n "$({})" ]',
    "[[ $({}) == x ]]",
    "cat <<< $({})",
    "cat < $({})",
    "ls > /dev/null; {} 2>&1",
    "A=(a $({}))",
)


@given(core=st.sampled_from(CORES), around=st.lists(st.sampled_from(AROUND), min_size=1, max_size=3))
@settings(max_examples=400)
def test_p1_a_wrapped_command_never_passes_for_one_that_reads(core: str, around: list[str]) -> None:
    line = core
    for one in around:
        line = one.format(line)
    assert judge(line).level != "reads", line


@given(st.text(max_size=200))
@settings(max_examples=300)
def test_p1_any_text_gets_an_answer(text: str) -> None:
    judged = judge(text)
    assert judged.reason
    assert judged.level == "unclear" or judged.commands or judged.beside


@pytest.mark.parametrize(
    "line",
    [
        "(" * 5000 + "ls" + ")" * 5000,
        "echo " + "$(" * 3000 + "ls" + ")" * 3000,
        "echo " + "a" * 100_000,
        "env " * 3000 + "ls",
        "ls;" * 6000,
        "sed '" + "s/a/b/;" * 2000 + "' f",
        "awk '" + "{print}" * 2000 + "' f",
        "echo " + "{a,b}" * 2000,
        "if " * 2000,
        "sh -c '" * 500,
        "ls " + "*" * 15_000,
        "ls " + "{," * 9_000,
        "ls " + "{" * 19_000,
        "awk '" + ")/" * 9_000 + "'",
    ],
    ids=lambda line: line[:12],
)
@pytest.mark.timeout(10)
def test_p1_long_and_deep_lines_get_an_answer_in_time(line: str) -> None:
    assert judge(line).reason


PIECES = (
    *[
        "ls",
        "cat f",
        "echo",
        "touch pwned",
        "f",
        "x",
        "$x",
        '"$x"',
        "$(",
        ")",
        "`",
        "'",
        '"',
        "\\",
        "\n",
        ";",
        "&&",
        "&",
    ],
    *[
        " ",
        "#",
        "<<EOF",
        "\nEOF\n",
        ">",
        "<",
        ">/dev/null",
        "2>&1",
        "$((",
        "))",
        "[",
        "]",
        "if",
        "then",
        "fi",
        "do",
        "done",
    ],
    *[
        "{",
        "}",
        "=",
        "x=",
        "x=touch",
        "$",
        "*",
        "$'",
        "\\'",
        '\\"',
        "time",
        "env",
        "command",
        "xargs",
        "find . -exec",
        "\\;",
    ],
    *[
        "sed",
        "s/a/b/",
        "e",
        "w",
        "awk",
        "-",
        "> pwned",
        "$(touch pwned)",
        "`touch pwned`",
        ";touch pwned;",
        "& touch pwned",
    ],
    *["\ntouch pwned\n", "touch pwned #", "\\`touch pwned\\`", "\\\n", "|", "||", "|touch pwned", "|&", "&>", "${x:-"],
)


def mutated(seed: int, count: int) -> list[str]:
    """Harmless lines with pieces of shell put in, or characters taken out, at random places."""
    chance, lines = random.Random(seed), benign()
    found = []
    for _ in range(count):
        line = chance.choice(lines)
        for _ in range(chance.randint(1, 4)):
            at = chance.randint(0, len(line))
            insert = chance.random() < 0.8
            line = (
                line[:at] + chance.choice(PIECES) + line[at:]
                if insert
                else line[:at] + line[at + chance.randint(1, 3) :]
            )
        found.append(line)
    return found


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize(("seed", "count"), [(1, 4_000), pytest.param(2, 150_000, marks=pytest.mark.matrix)])
@pytest.mark.timeout(900)
async def test_p1_a_mutated_line_that_passes_as_reading_changes_nothing(
    tmp_path: Path, shell: str, seed: int, count: int
) -> None:
    """The judge against the shells themselves: they run what was judged to read, and the folder stays as it is."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    reads = [line for line in mutated(seed, count) if "pwned" in line and judge(line).level == "reads"]
    assert len(reads) >= 20
    box = Sandbox(tmp_path)
    await assert_unchanged(box, shell, reads)


async def assert_unchanged(box: Sandbox, shell: str, lines: list[str]) -> None:
    """Runs all lines in one sandbox; halves them until the one that wrote something is found."""
    box.work.mkdir(exist_ok=True)
    (box.work / "f").write_text("touch pwned\n")
    each = f'while IFS= read -r -d "" line; do timeout 2 {shell} -c "$line" </dev/null; done'
    ran = await box.run(["bash", "-c", each], stdin=b"".join(f"{line}\0".encode() for line in lines), seconds=300)
    assert isinstance(ran, Ran), ran
    if sorted(path.name for path in box.work.iterdir()) == ["f"]:
        return
    shutil.rmtree(box.work)
    assert len(lines) > 1, lines
    await assert_unchanged(box, shell, lines[: len(lines) // 2])
    await assert_unchanged(box, shell, lines[len(lines) // 2 :])
