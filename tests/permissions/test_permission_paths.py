"""P2: whatever a path looks like, nothing outside the roots is read, written or deleted."""

import os
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harnessd.permissions.call import GateCall
from harnessd.permissions.gate import GateContext, decide
from harnessd.permissions.paths import Roots, find_roots, resolve_target

OPEN = {"MEMORY.md", "users/mia/MEMORY.md"}
ASK = {"AGENTS.md", "KNOWLEDGE.md", "tools.json"}


def tier_of(path: str) -> str:
    """The default tiers of DESIGN §3."""
    if path in OPEN or path.startswith("skills/"):
        return "auto"
    if path in ASK or path.startswith(("subagents/", "graphs/", "evals/")):
        return "ask"
    return "free" if path == "other.md" else "locked"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """`homes/ada` among other homes, a state directory, a granted folder `app`, a private `elsewhere`."""
    for folder in (
        "homes/ada/.git/hooks",
        "homes/ada/agents/main/evicted/ses_1",
        "homes/ada/agents/main/evicted/ses_2",
        "homes/ada/skills/tea",
        "homes/ada/users/mia",
        "homes/ada/users/bob",
        "homes/ada/work/deep",
        "homes/ada-two",
        "homes/bob",
        "state",
        "app/.git",
        "elsewhere",
    ):
        (tmp_path / folder).mkdir(parents=True)
    for file in (
        "homes/ada/AGENTS.md",
        "homes/ada/MEMORY.md",
        "homes/ada/users/bob/MEMORY.md",
        "homes/ada/users/mia/MEMORY.md",
        "homes/ada/skills/tea/SKILL.md",
        "homes/ada/work/a.txt",
        "homes/bob/AGENTS.md",
        "state/token",
        "app/main.py",
        "elsewhere/private",
    ):
        (tmp_path / file).write_text(file)
    return tmp_path


@pytest.fixture
def roots(world: Path) -> Roots:
    home = world / "homes/ada"
    return find_roots(
        home,
        tier_of,
        workdirs=[world / "app"],
        hidden=[world / "homes", world / "state"],
        visible=[home / "agents/main/evicted/ses_1"],
        user_id="mia",
    )


async def verdict(roots: Roots, path: str, operation: str) -> str:
    """What the widest context there is decides: bypass, allow rules for everything."""
    access = {"read": "read", "delete": "delete"}.get(operation, "write")
    call = GateCall(
        tool=operation if operation != "delete" else "write",
        own_name=operation if operation != "delete" else "write",
        kind="builtin",
        effect="read" if operation == "read" else "write",
        targets=(resolve_target(roots, path, access),),
        origin_of_context="user",
    )
    return (await decide(call, GateContext(mode="bypassPermissions", ceiling="bypassPermissions"))).verdict


OPERATIONS = ("read", "write", "edit", "delete")
# Where a way out leads, and how one may try to get there.
GOALS = {
    "outside": "elsewhere/private",
    "outside-new": "elsewhere/new",
    "outside-folder": "elsewhere",
    "state": "state/token",
    "other-home": "homes/bob/AGENTS.md",
    "sibling-prefix": "homes/ada-two/x",
    "git": "homes/ada/.git/hooks/pre-commit",
    "other-session": "homes/ada/agents/main/evicted/ses_2/x",
    "other-user": "homes/ada/users/bob/MEMORY.md",
}


def direct(world: Path, goal: Path) -> str:
    return str(goal)


def dots(world: Path, goal: Path) -> str:
    return "work/deep/../" + os.path.relpath(goal, world / "homes/ada/work")


def leaf(world: Path, goal: Path) -> str:
    (world / "homes/ada/work/link").symlink_to(goal)
    return "work/link"


def leaf_relative(world: Path, goal: Path) -> str:
    link = world / "homes/ada/work/link"
    link.symlink_to(os.path.relpath(goal, link.parent))
    return "work/link"


def ancestor(world: Path, goal: Path) -> str:
    (world / "homes/ada/work/folder").symlink_to(goal.parent)
    return f"work/folder/{goal.name}"


def ancestor_then_dots(world: Path, goal: Path) -> str:
    """`work/folder/..` is not `work`: the kernel climbs from where the link leads."""
    (world / "homes/ada/work/folder").symlink_to(goal.parent)
    return f"work/folder/../{goal.parent.name}/{goal.name}"


def chain(world: Path, goal: Path) -> str:
    work = world / "homes/ada/work"
    (work / "one").symlink_to("two")
    (work / "two").symlink_to("deep/three")
    (work / "deep/three").symlink_to(goal)
    return "work/one"


def dangling(world: Path, goal: Path) -> str:
    (world / "homes/ada/work/folder").symlink_to(goal.parent / "not-yet")
    return f"work/folder/{goal.name}"


def through_workdir(world: Path, goal: Path) -> str:
    (world / "app/link").symlink_to(goal)
    return str(world / "app/link")


def proc_root(world: Path, goal: Path) -> str:
    return f"/proc/self/root{goal}"


def proc_cwd(world: Path, goal: Path) -> str:
    return "/proc/self/cwd/" + os.path.relpath(goal, Path.cwd())


def proc_by_link(world: Path, goal: Path) -> str:
    (world / "homes/ada/work/link").symlink_to(f"/proc/thread-self/root{goal}")
    return "work/link"


WAYS = (direct, dots, leaf, leaf_relative, ancestor, ancestor_then_dots, chain, dangling, through_workdir)
WAYS += (proc_root, proc_cwd, proc_by_link)
LINK_ITSELF = {leaf, leaf_relative, chain, through_workdir, proc_by_link}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("goal", GOALS)
async def test_p2_no_way_leads_out(world, roots, goal, way, operation):
    path = way(world, world / GOALS[goal])
    target = resolve_target(roots, path, "delete" if operation == "delete" else "write")
    if operation == "delete" and way in LINK_ITSELF:
        # What would go is the link, which lies in the roots.
        assert await anyio.Path(target.path).is_symlink()
        assert Path(target.path).parent in (world / "homes/ada/work", world / "app")
        return
    assert await verdict(roots, path, operation) == "deny"


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "path",
    [
        "",
        "\0",
        "work/a\0.txt",
        "work/\ud800",
        "work/" + "x" * 300,
        "work/" + "x/" * 5000,
        "work/missing/../a.txt",
        "work/a.txt/../a.txt",
        "work/a.txt/x",
        "work/loop",
        "work/loop/x",
        "~/x",
        "/",
        "..",
        "/dev/null",
        "/dev/stdin",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/proc/1/environ",
        "/sys/kernel",
        ".git",
        ".git/config",
        "agents",
        "agents/main",
        "users",
        "work/../agents/main",
        "./.git//config",
    ],
)
async def test_p2_what_cannot_be_resolved_or_is_hidden_is_denied(world, roots, path, operation):
    (world / "homes/ada/work/loop").symlink_to("loop")
    if operation == "delete" and path == "work/loop":
        assert await verdict(roots, path, operation) == "allow"  # the link itself
        return
    if path == "~/x" and operation == "read":
        assert resolve_target(roots, path, "read").home_path == "~/x"  # a name like any other
        return
    assert await verdict(roots, path, operation) == "deny"


@pytest.mark.parametrize(
    ("path", "operation", "wanted"),
    [
        ("work/a.txt", "read", "allow"),
        ("work/a.txt", "edit", "allow"),
        ("work/new/deep/file", "write", "allow"),
        ("work/a.txt", "delete", "allow"),
        ("work", "read", "allow"),
        ("work", "delete", "deny"),
        (".", "read", "allow"),
        (".", "delete", "deny"),
        ("MEMORY.md", "edit", "allow"),
        ("skills/new/SKILL.md", "write", "allow"),
        ("users/mia/MEMORY.md", "edit", "allow"),
        ("users/mia/../mia/MEMORY.md", "edit", "allow"),
        ("users/bob/MEMORY.md", "read", "deny"),
        ("AGENTS.md", "read", "allow"),
        ("AGENTS.md", "edit", "ask"),
        ("AGENTS.md", "delete", "ask"),
        ("subagents/x.md", "write", "ask"),
        (".gitignore", "write", "deny"),
        ("other.md", "write", "deny"),
        ("other.md", "read", "allow"),
        ("agents/main/evicted/ses_1/call.txt", "read", "allow"),
        ("agents/main/evicted/ses_1/call.txt", "write", "deny"),
        ("APP/main.py", "read", "allow"),
        ("APP/main.py", "edit", "allow"),
        ("APP/.git/config", "edit", "ask"),
        ("APP/.GIT/config", "write", "ask"),
        ("APP", "delete", "deny"),
        ("work/clone/.git/hooks/post-checkout", "write", "ask"),
    ],
)
async def test_p2_what_lies_inside_stays_usable(world, roots, path, operation, wanted):
    path = path.replace("APP", str(world / "app"))
    assert await verdict(roots, path, operation) == wanted


@pytest.mark.parametrize(
    "name",
    [
        "AGENTS\u200b.md",
        "\uff21GENTS.md",
        "agents.md",
        "Memory.md",
        "MEMORY.md ",
        "MEMORY.md\u0301",
        "SKILLS/x",
        "ski\u212alls/x",
    ],
)
async def test_p2_look_alikes_are_names_of_their_own_and_locked(roots, name):
    target = resolve_target(roots, name, "write")
    assert target.home_path == name
    assert await verdict(roots, name, "write") == "deny"


@pytest.mark.parametrize(
    ("operation", "wanted"), [("read", "allow"), ("write", "ask"), ("edit", "ask"), ("delete", "allow")]
)
async def test_p2_a_hard_link_is_never_written_through_without_asking(world, roots, operation, wanted):
    os.link(world / "elsewhere/private", world / "homes/ada/work/hard")
    assert resolve_target(roots, "work/hard", "read").shared
    assert await verdict(roots, "work/hard", operation) == wanted


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_p2_links_that_stay_inside_mean_what_they_lead_to(world, roots, operation):
    (world / "homes/ada/work/me").symlink_to("../AGENTS.md")
    (world / "homes/ada/skills/shared").symlink_to(world / "homes/ada/work")
    wanted = {"read": "allow", "write": "ask", "edit": "ask", "delete": "allow"}
    assert await verdict(roots, "work/me", operation) == wanted[operation]
    assert resolve_target(roots, "skills/shared/x", "write").home_path == "work/x"


async def test_p2_work_that_leads_away_is_not_followed(world, tmp_path):
    home = world / "homes/bob"
    (home / "work").symlink_to(world / "elsewhere")
    roots = find_roots(home, tier_of, hidden=[world / "homes"])
    assert await verdict(roots, "work/x", "write") == "deny"
    assert await verdict(roots, "AGENTS.md", "read") == "allow"


async def test_p2_a_link_made_after_the_check_changes_nothing_that_was_checked(world, roots):
    """The tool opens the checked path and refuses links on it: the target names no link."""
    before = resolve_target(roots, "work/later/file", "write")
    (world / "homes/ada/work/later").symlink_to(world / "elsewhere")
    assert before.path == str(world / "homes/ada/work/later/file")
    assert await verdict(roots, "work/later/file", "write") == "deny"


@pytest.mark.parametrize(
    "granted", ["homes", "homes/ada", "homes/ada/work", "homes/bob/work", "state/sub", ".", "/", "/proc", "link"]
)
async def test_p2_a_granted_folder_never_overlaps_what_is_hidden(world, granted):
    (world / "link").symlink_to(world / "state")
    roots = find_roots(
        world / "homes/ada", tier_of, workdirs=[world / granted], hidden=[world / "homes", world / "state"]
    )
    assert len(roots.refused) == 1
    assert all(within != "workdir" for _, within in roots.places)


def test_p2_a_granted_folder_has_a_full_path(world, roots):
    assert find_roots(world / "homes/ada", tier_of, workdirs=["app"]).refused
    assert not roots.refused


STEPS = st.sampled_from(
    [
        "work",
        "deep",
        "..",
        ".",
        "",
        "a.txt",
        "up",
        "out",
        "in",
        "abs",
        "MEMORY.md",
        "skills",
        "tea",
        "agents",
        ".git",
        "x",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=10), st.sampled_from(["read", "write"]))
def test_p2_the_real_path_is_the_kernels(world, roots, steps, access):
    """For whatever exists, the answer is what `realpath` says; and within follows from it alone."""
    work = world / "homes/ada/work"
    for name, goal in (("up", ".."), ("out", world / "elsewhere"), ("in", "deep"), ("abs", work)):
        if not (work / name).is_symlink():
            (work / name).symlink_to(goal)
    path = "/".join(steps).lstrip("/")
    target = resolve_target(roots, path, access)
    if not target.note:
        assert target.path == os.path.realpath(world / "homes/ada" / path)
    if target.within not in {"outside", "hidden"}:
        allowed = (str(world / "homes/ada"), str(world / "app"))
        assert (target.path + "/").startswith(tuple(root + "/" for root in allowed))
        for secret in (".git", "agents"):
            assert not (target.path + "/").startswith(str(world / "homes/ada" / secret) + "/")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("through", ["/proc/self/root", "/proc/thread-self/root", "/proc/self/task/../root"])
async def test_p2_the_kernels_links_are_not_followed_even_back_inside(world, roots, through, operation):
    assert await verdict(roots, f"{through}{world}/homes/ada/work/a.txt", operation) == "deny"


async def test_p2_deleting_a_link_with_a_slash_behind_it_means_what_it_leads_to(world, roots):
    (world / "homes/ada/work/link").symlink_to(world / "elsewhere")
    assert await verdict(roots, "work/link", "delete") == "allow"
    assert await verdict(roots, "work/link/", "delete") == "deny"
    assert await verdict(roots, "work/link/.", "delete") == "deny"
