import sysconfig

from cache_index import compiled
from cache_index.compiled import IS_COMPILED


def test_a_compiled_core_is_a_library() -> None:
    """Its file has the suffix of extension modules."""
    assert IS_COMPILED == compiled.__file__.endswith(str(sysconfig.get_config_var("EXT_SUFFIX")))
