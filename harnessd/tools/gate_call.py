"""What does the gate decide about when a tool is called? The one place that says it, for runs and for explanations."""

from harnessd.facts.message import JsonObject
from harnessd.permissions.call import GateCall, Target
from harnessd.tools.tool import Effect, Tool, ToolContext, no_targets


def gate_call(tool: Tool, arguments: JsonObject, effect: Effect, context: ToolContext) -> GateCall:
    """The call as the gate sees it. `effect` is that of these `arguments`, which fit the tool's schema.

    Looks at the paths that the call would touch (a few `lstat`), and changes nothing.
    """
    targets: tuple[Target, ...] = ()
    if tool.targets is not no_targets:
        targets = tool.targets(context, arguments)
    return GateCall(
        tool_call_id=context.call_id,
        tool=tool.name,
        own_name=tool.own_name,
        kind=tool.kind,
        arguments=arguments,
        effect=effect,
        targets=targets,
        origin_of_context=context.origin,
        remote=tool.origin == "remote",
        server=tool.server,
    )
