import pytest
from pydantic import ValidationError

from gateway.settings import ModelSettings
from gateway.settings.response_cache import ResponseCacheSettings

TINY = {"name": "tiny", "workers": [{"url": "http://127.0.0.1:1"}]}


def test_kept_answers_are_free_and_bounded() -> None:
    settings = ResponseCacheSettings()

    assert (2**28, 2**20, 3600, 0) == (
        settings.max_bytes,
        settings.max_answer_bytes,
        settings.expire_s,
        settings.charge_share,
    )


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(ValidationError):
        ResponseCacheSettings(charge_share=share)


def test_no_model_keeps_answers_by_default() -> None:
    assert "off" == ModelSettings.model_validate(TINY).response_cache
