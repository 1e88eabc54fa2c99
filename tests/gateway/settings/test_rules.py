import pytest

from routing.strategies import NAMES
from tests.gateway.settings.examples import parsed, sentences, with_model, with_worker


def test_the_nearest_strategy_is_suggested() -> None:
    """After all that there are."""
    assert [
        (
            f"models[0].strategy is 'round_robbin'; allowed are {', '.join(map(repr, NAMES))}; "
            f"did you mean 'round_robin'."
        )
    ] == sentences(with_model(strategy="round_robbin"))


@pytest.mark.parametrize(
    "url",
    ["ftp://a", "a:8000", "http://", "http:///x", "http://a:99999", "http://a:0", "http://a b", "http://[::1"],
)
def test_an_address_is_http_with_a_host(url: str) -> None:
    """Anything else could not be called."""
    assert [
        f"models[0].workers[0].url is {url!r}; the value must be an http:// or https:// address with a host."
    ] == sentences(with_worker(url=url))


@pytest.mark.parametrize("url", ["http://a", "https://a.example:8443/base", "http://[::1]:8000", "http://10.0.0.1"])
def test_a_good_address_stays_as_it_is(url: str) -> None:
    assert url == parsed(with_worker(url=f"{url}/")).models[0].workers[0].url


def test_the_address_of_a_worker_is_not_an_sdks_base_url() -> None:
    """With /v1 in it every request would be a 404, from a worker whose health check passes."""
    assert [
        "models[0].workers[0].url is 'http://a/v1/'; "
        "the value must not include /v1, which every request's path already has."
    ] == sentences(with_worker(url="http://a/v1/"))


@pytest.mark.parametrize("address", ["10.0.0.5:5557", "http://a:1", "tcp://a", "tcp://a:0", "tcp://a:65536", "ipc://"])
def test_events_come_from_an_address_of_zeromq(address: str) -> None:
    """Anything else could not be connected to."""
    assert [
        f"models[0].workers[0].kv_events.endpoint is {address!r}; "
        f"the value must be a ZeroMQ address such as tcp://10.0.0.5:5557."
    ] == sentences(with_worker(kv_events={"endpoint": address}))


@pytest.mark.parametrize("address", ["tcp://10.0.0.5:5557", "tcp://[::1]:5557", "tcp://*:5557", "ipc:///run/a"])
def test_a_good_address_of_zeromq_stays_as_it_is(address: str) -> None:
    """A star stands for the worker's own host."""
    reported = parsed(with_worker(kv_events={"endpoint": address})).models[0].workers[0].kv_events

    assert reported is not None
    assert address == reported.endpoint


class TestRepetition:
    def test_a_name_belongs_to_one_model(self) -> None:
        """Names, aliases and patterns of all models differ."""
        text = """
        models:
          - {name: tiny, aliases: [tiny, "g*"], bedrock: {model_id: m}}
          - {name: other, aliases: ["g*", tiny], bedrock: {model_id: m}}
        bedrock: {region: us-east-1}
        """

        assert [
            "models[0].aliases[0] is 'tiny', which is already used by models[0].name.",
            "models[1].aliases[0] is 'g*', which is already used by models[0].aliases[1].",
            "models[1].aliases[1] is 'tiny', which is already used by models[0].name.",
        ] == sentences(text)

    def test_an_address_is_one_worker(self) -> None:
        """Two spellings of one address are the same worker."""
        text = with_model(workers=[{"url": "http://host"}, {"url": "http://HOST:80/"}])

        assert [
            ("models[0].workers[1].url is 'http://host:80', which is already used by models[0].workers[0].url.")
        ] == sentences(text)

    def test_an_id_is_one_worker(self) -> None:
        """An id that was given may not be another's, nor the one that another's address makes."""
        text = with_model(workers=[{"url": "http://a"}, {"url": "http://b", "id": "worker-677a0eb9"}])

        assert [
            ("models[0].workers[1].id is 'worker-677a0eb9', which is already used by models[0].workers[0].id.")
        ] == sentences(text)

    def test_two_models_may_share_a_worker(self) -> None:
        """One server can serve several models."""
        text = """
        models:
          - {name: base, workers: [{url: "http://a"}]}
          - {name: adapter, workers: [{url: "http://a"}]}
        """

        assert ["base", "adapter"] == [model.name for model in parsed(text).models]

    def test_an_id_stands_for_one_address_in_all_models(self) -> None:
        """The prefixes that are known of a worker are known by its id."""
        text = """
        models:
          - {name: base, workers: [{url: "http://a", id: gpu-0}, {url: "http://b", id: gpu-1}]}
          - {name: other, workers: [{url: "http://c", id: gpu-1}]}
        """

        assert [
            (
                "models[1].workers[0].id is 'gpu-1', but this id is already used for another url "
                "in models[0].workers[1].url."
            )
        ] == sentences(text)

    def test_an_id_that_was_not_given_stands_for_its_address(self) -> None:
        """An id that was not given is a digest of the url."""
        text = """
        models:
          - {name: base, workers: [{url: "http://a"}]}
          - {name: other, workers: [{url: "http://b", id: "worker-677a0eb9"}]}
        """

        assert [
            (
                "models[1].workers[0].id is 'worker-677a0eb9', but this id is already used for another url "
                "in models[0].workers[0].url."
            )
        ] == sentences(text)

    def test_one_worker_may_be_spelt_in_two_ways(self) -> None:
        """The same id for the same server, in two models."""
        text = """
        models:
          - {name: base, workers: [{url: "http://host", id: gpu-0}]}
          - {name: adapter, workers: [{url: "http://HOST:80/", id: gpu-0}]}
        """

        assert ["gpu-0", "gpu-0"] == [model.workers[0].id for model in parsed(text).models]
