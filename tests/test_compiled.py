"""What mypyc 2.4.1 compiles into something else than what stands there must not stand in what is compiled."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def modules() -> list[str]:
    build = ast.parse((ROOT / "deploy" / "compile_core.py").read_text())
    lists = {
        target.id: ast.literal_eval(step.value)
        for step in build.body
        if isinstance(step, ast.Assign)
        for target in step.targets
        if isinstance(target, ast.Name)
    }
    core = [path for package in lists["CORE"] for path in (ROOT / package).rglob("*.py")]
    return [*lists["ACCOUNTS"], *lists["REQUESTS"], *(str(path.relative_to(ROOT)) for path in core)]


def awaits_in_handlers(node: ast.AST, function: str = "", *, handles: bool = False) -> Iterator[str]:
    """The coroutines that await in an ``except``, in a ``finally``, or at the end of an ``async with``.

    That of `asyncio.timeout` does not: it is a coroutine that never waits.
    """
    if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef | ast.Lambda):
        function, handles = getattr(node, "name", function), False
    if handles and isinstance(node, ast.Await):
        yield function
    if isinstance(node, ast.AsyncWith) and not all(_is_timeout(item.context_expr) for item in node.items):
        yield function
    if isinstance(node, ast.Try):
        for part in (*node.body, *node.orelse):
            yield from awaits_in_handlers(part, function, handles=handles)
        for handler in (*node.handlers, *node.finalbody):
            yield from awaits_in_handlers(handler, function, handles=True)
        return
    for child in ast.iter_child_nodes(node):
        yield from awaits_in_handlers(child, function, handles=handles)


def _is_timeout(context: ast.expr) -> bool:
    return isinstance(context, ast.Call) and ast.unparse(context.func) == "asyncio.timeout"


def test_the_rule_sees_what_it_forbids() -> None:
    """Not what comes behind a handler, nor what a function within one does later."""
    source = """
async def wrong():
    try:
        await a()
    except ValueError:
        if b:
            await c()
async def wrong_too():
    try:
        pass
    finally:
        await a()
async def wrong_as_well():
    async with asyncio.TaskGroup():
        pass
async def right():
    try:
        async with asyncio.timeout(1):
            await a()
    except ValueError:
        async def later(): await b()
    await c()
"""
    assert ["wrong", "wrong_too", "wrong_as_well"] == list(awaits_in_handlers(ast.parse(source)))


@pytest.mark.parametrize("module", modules())
def test_no_compiled_coroutine_awaits_while_it_handles_an_exception(module: str) -> None:
    """It would lose the exception, or leave it behind for another task."""
    found = {f"{module}: {name}" for name in awaits_in_handlers(ast.parse((ROOT / module).read_text()))}

    assert set() == found
