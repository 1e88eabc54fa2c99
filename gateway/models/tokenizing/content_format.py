"""Detection of the message content that a chat template expects: one string, or a list of parts.

It works like vLLM's ``--chat-template-content-format auto`` (`vllm/renderers/hf.py`, _detect_content_format, 0.32): a
template that loops over the content of a message expects parts. As in vLLM, names are followed through assignments and
macro parameters, without regard to scope.
"""

from collections.abc import Iterable, Iterator

from jinja2 import nodes

from gateway.models.tokenizing.conversation import ContentFormat


def content_format_of(template: nodes.Template) -> ContentFormat:
    """Return the content format that the parsed *template* expects, or "string" if the format is unclear."""
    try:
        messages = _loop_names(template, _names_of(template, "messages"))
        walks = any(_single(loop.target) for loop in _content_loops(template, messages))
    except _UnusualName:
        return "string"
    return "openai" if walks else "string"


class _UnusualName(Exception):
    """The template assigns data from messages to several names at once, which ends vLLM's detection of the format."""


def _names_of(template: nodes.Template, first: str) -> list[str]:
    """Return *first* and all names to which the template assigns it, directly or through other names."""
    names = [first]
    for name in names:  # which grows
        for assignment in template.find_all(nodes.Assign):
            if _is_of(assignment.node, name):
                target = _single(assignment.target)
                if target not in names:
                    names.append(target)
    return names


def _loop_names(template: nodes.Template, lists: Iterable[str]) -> list[str]:
    """Return the variables of all loops over *lists*."""
    lists = [*lists]
    loops = template.find_all(nodes.For)
    return [_single(loop.target) for loop in loops if any(_is_of(loop.iter, name) for name in lists)]


def _content_loops(template: nodes.Template, messages: list[str]) -> Iterator[nodes.For]:
    """Yield the loops over the content of a message in *messages*."""
    of_macros = _macro_loops(template, messages)
    for loop in template.find_all(nodes.For):
        if any(_is_of(loop.iter, name, "content") for name in messages):
            yield loop
        elif isinstance(loop.iter, nodes.Name):
            parameters = of_macros.get(id(loop))
            # Outside of macros, the usual name is taken for what it says.
            if loop.iter.name in (["content"] if parameters is None else parameters):
                yield loop


def _macro_loops(template: nodes.Template, messages: list[str]) -> dict[int, list[str]]:
    """Return the macro parameters that receive the content of a message, for each loop in a macro, by the loop's id."""
    found: dict[int, list[str]] = {}
    calls = [call for call in template.find_all(nodes.Call) if isinstance(call.node, nodes.Name)]
    for macro in template.find_all(nodes.Macro):
        parameters = [argument.name for argument in macro.args]
        given: list[str] = []
        for call in calls:
            if isinstance(call.node, nodes.Name) and call.node.name == macro.name:
                words = [(word.key, word.value) for word in call.kwargs if word.key in parameters]
                arguments = [*zip(parameters, call.args, strict=False), *words]
                given += [name for name, value in arguments if _is_content(value, messages)]
        for loop in macro.find_all(nodes.For):
            if given or id(loop) not in found:
                found[id(loop)] = given
    return found


def _is_content(value: nodes.Node, messages: list[str]) -> bool:
    return any(_is_of(value, name, "content") for name in messages)


def _is_of(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Return whether *node* is the variable *name* or its member *key*, possibly with a filter, a test or a slice."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if key is None:
        return _is_variable(node, name)
    match node:
        case nodes.Getitem(node=of, arg=nodes.Const(value=value)):
            return bool(value == key) and _is_variable(of, name)
        case nodes.Getattr(node=of, attr=attribute):
            return attribute == key and _is_variable(of, name)
    return False


def _is_variable(node: nodes.Node | None, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name


def _single(target: nodes.Node) -> str:
    if isinstance(target, nodes.Name):
        return target.name
    raise _UnusualName
