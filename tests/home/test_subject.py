"""Does the subject line of a commit say what the change was?"""

import pytest

from harnessd.home.subject import subject_of

TEMPLATE = '{"mcpServers": {}, "allow": ["read"], "deny": []}'
SHOP = '{"mcpServers": {"shop": {"command": "shop"}}, "allow": ["read"], "deny": []}'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (TEMPLATE, TEMPLATE.replace('["read"]', '["execute(mkdir a)", "read"]'), "Allow execute(mkdir a)"),
        (TEMPLATE, TEMPLATE.replace('["read"]', '["a", "read", "b"]'), "Allow a and 1 more"),
        (TEMPLATE, TEMPLATE.replace('["read"]', "[]"), "No longer allow read"),
        ("{}", '{"ask": ["write"] /* mine */}', "Ask about write"),
        (TEMPLATE, TEMPLATE.replace('"deny": []', '"deny": ["connect"]'), "Deny connect"),
        (None, '{"allow": ["read"]}', "Allow read"),
        (TEMPLATE, SHOP, "Add the MCP server shop"),
        (SHOP, TEMPLATE, "Remove the MCP server shop"),
        (SHOP, SHOP.replace('"command": "shop"', '"command": "other"'), "Change the MCP server shop"),
        (TEMPLATE, SHOP.replace('"read"', '"write"'), "Edit tools.json: 1 line added, 1 removed"),
        (TEMPLATE, TEMPLATE.replace('["read"]', '["write"]'), "Edit tools.json: 1 line added, 1 removed"),
        (TEMPLATE, "no json", "Edit tools.json: 1 line added, 1 removed"),
        ('{"allow": "x"}', '{"allow": 3}', "Edit tools.json: 1 line added, 1 removed"),
        ('{"allow": []}', '{"allow": [{"a": 1}]}', "Allow {'a': 1}"),
        (TEMPLATE, None, "Remove tools.json"),
    ],
)
def test_a_change_of_rules_or_servers_is_named(old: str | None, new: str | None, said: str) -> None:
    told = subject_of("tools.json", *(None if text is None else text.encode() for text in (old, new)))
    assert told == said
