"""The content of an artifact is what was recorded, or it is said to be gone or altered."""

import os
import shutil
from pathlib import Path

import pytest

from harnessd.errors import InvalidName
from harnessd.facts.run import ArtifactRef
from harnessd.home.layout import Home
from harnessd.ids import new_id
from harnessd.tools.artifact_content import Altered, Content, Gone, KnownHashes, open_artifact
from harnessd.tools.artifact_store import keep_bytes, place_of

DATA = b"# Report\n" * 1000


def an_artifact(base: Path) -> tuple[Home, str, ArtifactRef]:
    home, session, own = Home(base / "ada"), new_id("ses"), new_id("art")
    home.path.mkdir()
    kept = keep_bytes(DATA, "report.md", place_of(home, "main", session, own))
    ref = ArtifactRef(id=own, content_ref=kept.content_ref, size=kept.size, sha256=kept.sha256)
    return home, session, ref


def test_the_content_is_opened_from_its_beginning(tmp_path: Path) -> None:
    home, session, ref = an_artifact(tmp_path)
    found = open_artifact(home, "main", session, ref, KnownHashes())
    assert isinstance(found, Content)
    with os.fdopen(found.fd, "rb") as file:
        assert file.read() == DATA
    assert (found.path, found.size) == (home.path / ref.content_ref, len(DATA))


def _longer(path: Path) -> None:
    path.write_bytes(DATA + b"x")


def _same_size_and_time(path: Path) -> None:
    before = path.stat()
    path.write_bytes(b"!" + DATA[1:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replaced(path: Path) -> None:
    path.unlink()
    path.write_bytes(DATA[::-1])


def _deleted(path: Path) -> None:
    path.unlink()


def _folder_deleted(path: Path) -> None:
    shutil.rmtree(path.parent)


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _a_link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def _folder_a_link(path: Path) -> None:
    folder = path.parent
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("moved")


def _session_a_link(path: Path) -> None:
    _folder_a_link(path.parent)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_longer, Altered),
        (_same_size_and_time, Altered),
        (_replaced, Altered),
        (_deleted, Gone),
        (_folder_deleted, Gone),
        (_a_folder, Gone),
        (_a_fifo, Gone),
        (_a_link, Gone),
        (_folder_a_link, Gone),
        (_session_a_link, Gone),
    ],
)
def test_whatever_happened_to_the_file_is_said(tmp_path: Path, change: object, says: type[Gone | Altered]) -> None:
    """Also when its hash is known already."""
    home, session, ref = an_artifact(tmp_path)
    known = KnownHashes()
    before = len(list(Path("/proc/self/fd").iterdir()))
    first = open_artifact(home, "main", session, ref, known)
    assert isinstance(first, Content)
    os.close(first.fd)
    change(home.path / ref.content_ref)  # type: ignore[operator]
    found = open_artifact(home, "main", session, ref, known)
    assert isinstance(found, says), found
    assert found.why
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "AGENTS.md",
        "/etc/passwd",
        "agents/main/artifacts/{session}",
        "agents/main/artifacts/{session}/",
        "agents/main/artifacts/{session}/../../../../AGENTS.md",
        "agents/main/artifacts/ses_01kbc3fqz-7h2m9xw/x",
        "agents/main/sessions/{session}.jsonl",
        "agents/other/artifacts/{session}/x",
        "./agents/main/artifacts/{session}/../x",
        "agents/main/artifacts/{session}/x\0y",
        "/agents/main/artifacts/{session}/x",
        "data:image/png;base64,AAAA",
    ],
)
def test_p5_a_reference_never_leads_out_of_its_sessions_folder(tmp_path: Path, reference: str) -> None:
    home, session, ref = an_artifact(tmp_path)
    (home.path / "AGENTS.md").write_bytes(DATA)
    (home.path / "agents/main/sessions").mkdir()
    home.journal("main", session).write_bytes(DATA)
    planted = ref.model_copy(update={"content_ref": reference.format(session=session)})
    assert isinstance(open_artifact(home, "main", session, planted, KnownHashes()), Gone)


def test_a_link_that_the_operator_trusts_is_followed(tmp_path: Path) -> None:
    home, session, ref = an_artifact(tmp_path)
    place = home.path / "agents/main/artifacts"
    place.rename(tmp_path / "disk")
    place.symlink_to(tmp_path / "disk")
    assert isinstance(open_artifact(home, "main", session, ref, KnownHashes()), Gone)
    found = open_artifact(home, "main", session, ref, KnownHashes(), trusted_links=(place,))
    assert isinstance(found, Content)
    os.close(found.fd)


@pytest.mark.parametrize(("agent", "session"), [("..", "ses_01kbc3fqz-7h2m9xw"), ("main", "../x"), ("a/b", "ses_1")])
def test_p5_names_that_are_none_are_refused(tmp_path: Path, agent: str, session: str) -> None:
    with pytest.raises(InvalidName):
        open_artifact(Home(tmp_path), agent, session, ArtifactRef(), KnownHashes())


def test_a_known_hash_is_not_computed_again(tmp_path: Path) -> None:
    """A page that is read in many ranges is hashed once: the second time the file is not even read."""
    path = tmp_path / "x"
    path.write_bytes(DATA)
    known = KnownHashes()
    file = os.open(path, os.O_RDONLY)
    unreadable = os.open(path, os.O_PATH)
    try:
        assert known.of(file) == known.of(unreadable)
    finally:
        os.close(file)
        os.close(unreadable)
