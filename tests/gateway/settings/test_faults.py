import pytest

from tests.gateway.settings.examples import SMALLEST, sentences, with_model, with_worker


class TestUnknownNames:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (with_model(stratgy="session"), "models[0].stratgy is not a setting; did you mean 'strategy'."),
            (with_worker(apikey="sk-1"), "models[0].workers[0].apikey is not a setting; did you mean 'api_key'."),
            (f"{SMALLEST}\ntimeout: {{}}", "timeout is not a setting; did you mean 'timeouts'."),
            (f"{SMALLEST}\nport: 1", "port is not a setting; did you mean 'server.port'."),
            (
                f"{SMALLEST}\ndrain: {{zzz: 1}}",
                "drain.zzz is not a setting; allowed are 'hand_over_after_s'.",
            ),
        ],
    )
    def test_the_nearest_name_is_suggested(self, text: str, expected: str) -> None:
        """A similar name of the same group, else the same name elsewhere, else all that is allowed."""
        assert [expected] == sentences(text)

    @pytest.mark.parametrize(
        ("variable", "expected"),
        [
            ("WARMGATE_MODELS__0__STRATGY", "did you mean WARMGATE_MODELS__0__STRATEGY"),
            ("WARMGATE_MODELS__12__WORKERS__3__URLL", "did you mean WARMGATE_MODELS__12__WORKERS__3__URL"),
            ("WARMGATE_SERVER_PORT", "did you mean WARMGATE_SERVER__PORT"),
            ("WARMGATE_SERVER__PORT__X", "did you mean WARMGATE_SERVER__PORT"),
            ("WARMGATE_PORT", "did you mean WARMGATE_SERVER__PORT"),
            ("WARMGATE_MODELS__FIRST__NAME", "did you mean WARMGATE_MODELS__0__NAME"),
        ],
    )
    def test_the_nearest_variable_is_suggested(self, variable: str, expected: str) -> None:
        """List indexes are kept as they were written."""
        assert [f"{variable} is not a setting; {expected}."] == sentences(**{variable: "1"})

    def test_a_variable_like_no_setting_names_the_groups(self) -> None:
        """With nothing near, the beginnings that exist are listed."""
        assert sentences(WARMGATE_QQQ="1")[0].startswith(
            "WARMGATE_QQQ is not a setting; variables begin with one of 'WARMGATE_SERVER', 'WARMGATE_MODELS', "
        )


class TestValues:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("server: {port: abc}", "server.port is 'abc'; the value must be an integer."),
            ("server: {port: true}", "server.port is True; the value must be an integer."),
            ("server: {port: -1}", "server.port is -1; the value must be at least 0."),
            ("server: {port: null}", "server.port is empty; the value must be an integer."),
            ("server: {host: 127}", "server.host is 127; the value must be text (write it in quotes)."),
            ("logging: {format: xml}", "logging.format is 'xml'; allowed are 'text' or 'json'."),
            ("index: {max_bytes: 1.5}", "index.max_bytes is 1.5; the value must be an integer."),
            ("timeouts: {idle_s: 0}", "timeouts.idle_s is 0; the value must be greater than 0."),
            ("timeouts: {idle_s: .inf}", "timeouts.idle_s is inf; the value must be a finite number."),
            ("timeouts: {idle_s: fast}", "timeouts.idle_s is 'fast'; the value must be a number."),
            ("health: {path: health}", "health.path is 'health'; the value must be a path that begins with '/'."),
            ("logging: {requests: 1}", "logging.requests is 1; the value must be true or false."),
            ("logging: [info]", "logging is a list; the value must be a mapping."),
            (f"server: {{host: {'x' * 100}, port: y}}", "server.port is 'y'; the value must be an integer."),
        ],
    )
    def test_a_wrong_value_is_said_with_what_is_allowed(self, text: str, expected: str) -> None:
        """Place, value, and what is allowed, in one sentence."""
        assert [expected] == sentences(f"models: [{{name: tiny, workers: [{{url: 'http://a:1'}}]}}]\n{text}")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("models: []", "models is empty. Configure at least one model."),
            ("models: {}", "models is a mapping; the value must be a list."),
            ("models: [tiny]", "models[0] is not valid; the value must be a mapping."),
            ("models: [{workers: [{url: 'http://a'}]}]", "models[0].name is missing; it must be given."),
            (
                "models: [{name: tiny}]",
                "models[0].workers is empty. A model needs at least one worker, or a workers_file, or a fallback.",
            ),
            (
                with_model(name="gpt-*"),
                "models[0].name is 'gpt-*'; the value must be a name without '*' (patterns are for aliases).",
            ),
            (
                with_model(aliases=["ok", "g*t"]),
                "models[0].aliases[1] is 'g*t'; the value must be a name, or a prefix with one '*' at its end.",
            ),
            (
                with_model(session_header="a b"),
                "models[0].session_header is 'a b'; the value must be the name of an HTTP header.",
            ),
            (with_model(workers=[{}]), "models[0].workers[0].url is missing; it must be given."),
            (
                with_worker(max_connections=0),
                "models[0].workers[0].max_connections is 0; the value must be at least 1.",
            ),
            (
                with_worker(id="a\r\nb"),
                "models[0].workers[0].id is 'a\\r\\nb'; the value must be printable ASCII without spaces.",
            ),
            (
                with_model(fallbacks=[{"bedrock": {}}]),
                "models[0].fallbacks[0].bedrock.model_id is missing; it must be given.",
            ),
        ],
    )
    def test_a_wrong_model_is_said_with_its_number(self, text: str, expected: str) -> None:
        """Entries of lists are counted from 0, as in the variables."""
        assert [expected] == sentences(text)

    def test_every_fault_has_its_sentence(self) -> None:
        """One start shows all of them."""
        assert [
            "server.port is 'x'; the value must be an integer.",
            "server.keep_alive_s is 0; the value must be at least 1.",
            "models[0].stratgy is not a setting; did you mean 'strategy'.",
        ] == sentences(f"server: {{port: x, keep_alive_s: 0}}\n{with_model(stratgy=1)}")


class TestSecrets:
    @pytest.mark.parametrize(
        ("text", "environ"),
        [
            (with_worker(api_key="sk hidden"), {}),
            (with_worker(api_key="sk-hidden\n"), {}),
            (with_worker(api_key=["sk-hidden"]), {}),
            (with_worker(apikey="sk-hidden"), {}),
            (with_model(workers=["sk-hidden"]), {}),
            (with_model(workers={"api_key": "sk-hidden"}), {}),
            (with_worker(url="http://user:hidden@host"), {}),
            (with_worker(url="http://host?token=hidden"), {}),
            (with_worker(url="http://host#hidden"), {}),
            (with_worker(url="user:hidden@host"), {}),
            (SMALLEST, {"WARMGATE_MODELS__0__WORKERS__0__API_KEY": "sk hidden"}),
            (SMALLEST, {"WARMGATE_MODELS__0__WORKERS__0__APIKEY": "hidden"}),
            (SMALLEST, {"WARMGATE_MODELS": "[{api_key: hidden"}),
        ],
    )
    def test_no_sentence_repeats_one(self, text: str, environ: dict[str, str]) -> None:
        """Neither a key, nor what stands where a key was meant, nor an address with credentials."""
        reported = sentences(text, **environ)

        assert reported
        assert "hidden" not in " ".join(reported)

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            (with_model(workers="hidden"), "models[0].workers"),
            (f"{SMALLEST}\nteams: hidden", "teams"),
            (f"{SMALLEST}\nteams: [{{name: blue, keys: hidden}}]", "teams[0].keys"),
            (f"{SMALLEST}\nadmin: {{keys: hidden}}", "admin.keys"),
        ],
    )
    def test_a_secret_in_the_place_of_its_group_is_not_repeated(self, text: str, place: str) -> None:
        assert [f"{place} is not valid; the value must be a list."] == sentences(text)

    def test_a_key_of_digits_in_the_file_needs_quotes(self) -> None:
        """YAML would have changed it; the sentence does not show it."""
        assert ["models[0].workers[0].api_key is not valid; the value must be text (write it in quotes)."] == sentences(
            with_worker(api_key=12345678)
        )
