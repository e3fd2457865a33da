"""W4: whatever headers say, a subagent has no power that those above it lack; and what it is told is bounded."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from harnessd.home.as_subagent import DEEPEST, as_subagent, may_delegate
from harnessd.home.definition import Definition
from harnessd.home.document import Document
from harnessd.home.files_in_memory import FilesInMemory
from harnessd.home.problem import Problem
from harnessd.home.reader import DefinitionReader
from harnessd.home.roles import ROLES, helper, helpers, roles_of
from harnessd.home.settings import AgentSettings
from harnessd.home.skills import Skill
from harnessd.home.subagents import Subagent, resolve_tools

TOOLS = ("read", "write", "edit", "delegate", "skill", "mcp__time__now", "mcp__git__log")
ENTRIES = st.sampled_from((*TOOLS, "*", "mcp__time", "mcp__*", "Bash", "write(work/**)", "nothing"))
LISTS = st.lists(ENTRIES, max_size=4).map(tuple)
FOLDERS = st.lists(st.sampled_from(("/a", "/a/b", "/b", "/a/../b")), max_size=3).map(tuple)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.none() | LISTS,
        "disallowed_tools": LISTS,
        "skills": st.none() | st.lists(st.sampled_from(("tea", "rum", "Tea")), max_size=2).map(tuple),
        "workdirs": FOLDERS,
        "network": st.sampled_from(("none", "full")),
        "powers_withheld": st.booleans(),
    },
).map(lambda given: AgentSettings(**given))
SKILLS = (Skill(name="tea", path="skills/tea/SKILL.md"), Skill(name="rum", path="skills/rum/SKILL.md"))


def definition(main: AgentSettings) -> Definition:
    return Definition(agents=Document(path="AGENTS.md"), settings=main, skills=SKILLS, memory="- CANARY")


def tools_of(seen: Definition) -> set[str]:
    names: tuple[str, ...] = TOOLS
    for one in (*seen.above, seen.settings):
        left = resolve_tools(one, names)
        names = () if isinstance(left, Problem) else left
    return set(names)


@settings(max_examples=300, deadline=None)
@given(HEADERS, st.lists(HEADERS, min_size=1, max_size=4))
def test_w4_no_power_grows_on_the_way_down(main: AgentSettings, below: list[AgentSettings]) -> None:
    whole = definition(main)
    line = [Subagent(name=f"s{n}", path=f"subagents/s{n}.md", settings=one) for n, one in enumerate(below)]
    seen = [whole, *(as_subagent(whole, line[:length]) for length in range(1, len(line) + 1))]
    for above, own in itertools.pairwise(seen):
        assert tools_of(own) <= tools_of(above)
        assert set(own.skills) <= set(above.skills)
        assert set(own.settings.workdirs) <= set(above.settings.workdirs)
        assert (own.settings.network, above.settings.network) != ("full", "none")
        assert own.settings.powers_withheld >= above.settings.powers_withheld
        assert own.settings.schedule == ()
        assert "CANARY" not in own.prompt
        assert len(own.above) == len(above.above) + 1
        assert not may_delegate(own) or (len(own.above) < DEEPEST and own.settings.tools)


def test_every_role_is_shipped_whole() -> None:
    roles = roles_of(definition(AgentSettings()))
    assert tuple(role.name for role in roles) == ROLES
    for role in roles:
        assert role.description
        assert role.prompt
        assert not role.settings.powers_withheld
        assert "delegate" not in (role.settings.tools or ())


def test_h5_a_file_of_a_roles_name_takes_its_place_even_if_it_cannot_be_read() -> None:
    for raw in (b"---\ndescription: Ours.\n---\nLook.\n", b"", b"---\ntools: [read\n---\nLook\n", b"\0"):
        files = FilesInMemory({"AGENTS.md": b"Ada", "subagents/general.md": raw})
        read = DefinitionReader().read(files)
        found = helper(read, "general")
        assert found is None or found.path == "subagents/general.md"
        assert {one.name for one in helpers(read)} >= {"explore", "plan", "verify"}


def test_the_name_of_the_main_agent_is_taken() -> None:
    files = FilesInMemory({"AGENTS.md": b"Ada", "subagents/Main.md": b"---\ndescription: Me.\n---\nLook.\n"})
    read = DefinitionReader().read(files)
    assert helper(read, "main") is None
    assert "reserved-name" in {problem.code for problem in read.problems}
