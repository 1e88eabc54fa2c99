import importlib
import pkgutil

import gateway
from documentation.reference.errors import errors, page, when
from gateway.protocol.errors import GatewayError, InvalidKey, QueueFull


def classes_below(error: type[GatewayError]) -> set[str]:
    own = {error.__name__} if error.__module__.startswith("gateway.") else set()
    return own.union(*(classes_below(each) for each in error.__subclasses__()))


def test_no_error_of_any_module_is_missing() -> None:
    """Two classes never reach a caller: the base of errors of clients, and one that makes a fallback answer."""
    for module in pkgutil.walk_packages(gateway.__path__, "gateway."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    below = {each for each in classes_below(GatewayError) if not each.startswith("_")}

    assert below - {"ClientError", "WaitsTooLong"} == {each.__name__ for each in errors()}


def test_the_docstring_says_when_an_error_is_raised() -> None:
    """Sentences about attributes are left out."""
    assert "the queue is full, or the wait for a worker would be too long." == when(QueueFull)
    assert "the key is missing, unknown, expired or blocked." == when(InvalidKey)


def test_a_row_has_status_code_and_whether_the_next_worker_is_tried() -> None:
    assert "| 401 | `invalid_api_key` | `InvalidKey` | `authentication_error` |" in page()
    (row,) = [line for line in page().splitlines() if "`ConnectFailed`" in line]
    assert row.startswith("| 502 |")
    assert row.endswith("| yes |")
