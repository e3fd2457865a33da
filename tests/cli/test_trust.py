"""Does a home from elsewhere start nothing before the operator says so?"""

import shutil
from pathlib import Path

from harnessd.daemon.config import load_settings
from harnessd.home.layout import Home
from harnessd.home.tools_file import StdioServer
from harnessd.tools.accepted import accepted_tools
from tests.cli.command_line import harnessd, make, write


def test_h9_a_copied_home_is_trusted_by_command_for_what_it_declares_now(tmp_path: Path) -> None:
    home = make()
    write(home, "tools_json", '{"mcpServers": {"evil": {"command": "touch", "args": ["x"]}}}')
    copy = tmp_path / "ada"
    shutil.copytree(home, copy)
    [shown] = harnessd("trust", copy, "--show", "--json").records
    assert shown["trusted"] is False
    assert shown["starts"] == [{"kind": "server", "name": "evil", "command": "touch x"}]
    assert harnessd("run", copy, "say hi").code == 0
    assert not list(copy.rglob("x"))
    [trusted] = harnessd("trust", copy, "--json").records
    assert trusted["trusted"] is True
    write(copy, "tools_json", '{"mcpServers": {"evil": {"command": "touch", "args": ["y"]}}}')
    assert harnessd("trust", copy, "--show", "--json").records[0]["trusted"] is False
    assert "not trusted" in harnessd("trust", copy, "--show").out


def test_a_home_made_here_is_trusted() -> None:
    make()
    assert "ada is trusted" in harnessd("trust", "ada", "--show").out


def test_m2_what_a_server_says_anew_is_shown_and_accepted_by_command(tmp_path: Path) -> None:
    path, name = make(), "good"
    record = accepted_tools(load_settings({}).state_dir, Home(path))
    for said in ("one", "two"):
        record.judge(name, StdioServer(command="s"), {"echo": said})
    [shown] = harnessd("trust", path, "--show", "--json").records
    [tool] = shown["tools"]
    assert (tool["server"], tool["tool"], tool["kind"]) == ("good", "echo", "changed")
    assert tool["diff"].splitlines()[-2:] == ["-one", "+two"]
    assert "good: echo" in harnessd("trust", path, "--show").out
    assert "1 tool of its servers: accepted" in harnessd("trust", path).out
    assert harnessd("trust", path, "--json").records[0]["tools"] == []
