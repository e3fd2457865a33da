"""Does the daemon say where it is, what it found and that it ends, and refuse what cannot be?"""

import http.client
import json
import resource
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.command_line import harnessd, make, start, waiting
from tests.cli.daemon import serving


def test_o2_it_says_where_it_listens_what_it_found_and_that_it_ends(tmp_path: Path) -> None:
    make()
    waiting()
    broken = make("bea") / "agents" / "main" / "sessions"
    broken.mkdir(parents=True)
    (broken / "ses_1.jsonl").mkdir()
    process = start("serve", "--port", "0")
    assert process.stdout is not None
    said = "".join(process.stdout.readline() for _ in range(3))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "ready  http://127.0.0.1:" in said
    assert "2 homes" in said
    assert "1 session waiting for you; harnessd ps lists them" in said
    assert "cannot be read: bea ses_1" in said
    assert "stopping" in err
    assert err.rstrip().endswith("stopped")
    assert "Traceback" not in err
    assert out == ""


def test_o2_with_json_it_says_so_one_object_a_line(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        assert daemon.ready["type"] == "ready"
        assert daemon.ready["url"].startswith("http://127.0.0.1:")
        assert Path(daemon.ready["socket"]).is_socket()
        assert (daemon.ready["homes"], daemon.ready["waiting"]) == (0, [])
        assert daemon.process.stdout is not None
        daemon.process.terminate()
        rest = [json.loads(line) for line in daemon.process.stdout.readlines()]
        assert [one["type"] for one in rest] == ["stopping", "stopped"]


def test_without_room_for_a_socket_it_serves_by_the_port_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / ("a-state-directory-of-a-long-name" * 4)
    folder.mkdir()
    with serving(folder) as daemon:
        assert "too long" in daemon.ready["noSocket"]
        assert "socket" not in daemon.ready
        assert json.loads((daemon.state_dir / "daemon.json").read_text())["socket"] is None
        for command in (("init", "ada"), ("run", "ada", "hello", "--json")):
            process = start(*command, env=daemon.env)
            out, err = process.communicate(timeout=30)
            assert process.returncode == 0, err
        assert "run.finished" in out
        assert daemon.stop() == 0
    process = start("serve", "--port", "0", "--workspaces", folder / "workspaces", "--state-dir", folder / "state")
    assert process.stdout is not None
    said = process.stdout.readline() + process.stdout.readline()
    process.terminate()
    process.communicate(timeout=30)
    assert "there is no unix socket, only the port: the path of the state directory is too long" in said


@pytest.mark.parametrize(("hard", "room"), [(20_000, 16_384), (2_000, 2_000), (300, 300)])
def test_o1_it_makes_room_for_as_many_open_files_as_it_may(tmp_path: Path, hard: int, room: int) -> None:
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed < hard:
        pytest.skip("this machine allows less")
    with serving(tmp_path, limits=(min(256, hard), hard)) as daemon:
        assert resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE) == (room, hard)


def test_p5_names_that_the_operator_allows_are_answered(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "harnessd.yaml").write_text("allowedHosts: [box.lan, 'fe80::1']\n")
    with serving(tmp_path, HARNESSD_TOKEN="of-the-tests") as daemon:
        port = int(daemon.ready["url"].rpartition(":")[2])
        for host, status in (("box.lan", 200), ("BOX.LAN:7433", 200), ("[fe80::1]:7", 200), ("evil.example", 403)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            headers = {"Host": host, "Authorization": "Bearer of-the-tests"}
            connection.request("GET", "/api/agents", headers=headers)
            answer = connection.getresponse()
            assert answer.status == status, host
            assert status == 200 or "allowedHosts" in json.loads(answer.read())["hint"]
            connection.close()


@pytest.mark.parametrize("host", ["http://box.lan", "box.lan:80", "*.lan", "", "box lan", "box.lan/x"])
def test_a_name_that_would_never_be_met_is_refused(tmp_path: Path, host: str) -> None:
    (tmp_path / "harnessd.yaml").write_text(json.dumps({"allowedHosts": [host]}))
    said = harnessd("serve", "--port", "0", "--state-dir", tmp_path)
    assert said.code == 2
    assert "allowedHosts" in said.err
    assert "is no host" in said.err


def test_a_second_daemon_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        for state in (daemon.state_dir, tmp_path / "other"):
            second = start("serve", "--port", "0", "--workspaces", daemon.workspaces, "--state-dir", state)
            out, err = second.communicate(timeout=30)
            assert second.returncode == 5
            assert str(daemon.process.pid) in err
            assert out == ""


def test_a_port_that_is_taken_is_told_with_a_way_out(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start("serve", "--port", taken.getsockname()[1])
        _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "--port" in err


@pytest.mark.parametrize(
    "args", [["--port", "x"], ["--port", "65536"], ["--port", "-1"], ["--host", "no.such.host.invalid"]], ids=" ".join
)
def test_wrong_usage_ends_with_2(args: list[str]) -> None:
    process = start("serve", *args, stdin=subprocess.DEVNULL)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 2, err
    assert out == ""
    assert "Traceback" not in err


def test_help_of_serve_names_what_it_takes() -> None:
    said = harnessd("serve", "--help").out
    assert all(option in said for option in ("--host", "--port", "--workspaces", "--state-dir", "--json"))
