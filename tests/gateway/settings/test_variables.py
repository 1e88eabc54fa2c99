from pydantic import SecretStr

from gateway.settings import BedrockSettings
from tests.gateway.settings.examples import SMALLEST, parsed, sentences, with_worker


def test_what_kubernetes_puts_into_a_pod_is_passed_over() -> None:
    """A Service called warmgate gives every pod of its namespace variables that begin like ours."""
    settings = parsed(
        WARMGATE_SERVICE_HOST="10.0.0.1",
        WARMGATE_SERVICE_PORT="8080",
        WARMGATE_SERVICE_PORT_HTTP="8080",
        WARMGATE_PORT="tcp://10.0.0.1:8080",
        WARMGATE_PORT_8080_TCP="tcp://10.0.0.1:8080",
        WARMGATE_PORT_8080_TCP_ADDR="10.0.0.1",
        WARMGATE_REDIS_SERVICE_HOST="10.0.0.2",
        WARMGATE_REDIS_PORT="tcp://10.0.0.2:6379",
    )

    assert 8080 == settings.server.port


def test_a_key_of_digits_stays_text() -> None:
    """Text settings take the variable as it stands: 0123 is no octal number here."""
    settings = parsed(WARMGATE_MODELS__0__WORKERS__0__API_KEY="0123", WARMGATE_MODELS__0__NAME="on")

    assert SecretStr("0123") == settings.models[0].workers[0].api_key
    assert "on" == settings.models[0].name


def test_an_empty_variable_unsets_an_optional_text() -> None:
    """An empty key is no key."""
    text = with_worker(api_key="sk-1")

    assert parsed(text, WARMGATE_MODELS__0__WORKERS__0__API_KEY="").models[0].workers[0].api_key is None


def test_a_value_that_is_no_yaml_is_a_fault() -> None:
    """The variable and its type are named."""
    assert ["WARMGATE_SERVER__PORT is not a YAML value; the value must be of type integer."] == sentences(
        WARMGATE_SERVER__PORT="["
    )


def test_variables_of_others_do_not_matter() -> None:
    """Only our prefix is read."""
    assert parsed() == parsed(PORT="x", WARMGATEX="1", SERVER__PORT="2")


class TestAws:
    def test_its_own_variables_fill_what_is_unset(self) -> None:
        """The service's endpoint beats the general one, as in AWS's tools."""
        settings = parsed(
            AWS_ENDPOINT_URL="http://localhost:4566",
            AWS_ENDPOINT_URL_BEDROCK_RUNTIME="http://localhost:9999/",
            AWS_REGION="eu-west-1",
            AWS_DEFAULT_REGION="us-east-1",
        )

        assert BedrockSettings(region="eu-west-1", endpoint_url="http://localhost:9999") == settings.bedrock

    def test_the_general_endpoint_is_second(self) -> None:
        """Without one for the service the general one counts."""
        assert "http://localhost:4566" == parsed(AWS_ENDPOINT_URL="http://localhost:4566").bedrock.endpoint_url

    def test_the_file_beats_them(self) -> None:
        """What Warmgate was reported is not changed by what AWS's tools are reported."""
        text = f"{SMALLEST}\nbedrock: {{region: us-west-2, endpoint_url: 'https://vpce.example'}}"

        settings = parsed(text, AWS_REGION="eu-west-1", AWS_ENDPOINT_URL="http://localhost:4566")

        assert BedrockSettings(region="us-west-2", endpoint_url="https://vpce.example") == settings.bedrock

    def test_a_bad_one_is_named(self) -> None:
        """The sentence says where the value came from."""
        assert [
            (
                "AWS_ENDPOINT_URL (bedrock.endpoint_url) is 'localhost:4566'; "
                "the value must be an http:// or https:// address with a host."
            )
        ] == sentences(AWS_ENDPOINT_URL="localhost:4566")
