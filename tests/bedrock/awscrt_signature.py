"""Run by the Python that has awscrt: signs the requests on standard input, as JSON, and prints their signatures."""

import datetime as dt
import io
import json
import sys

import awscrt.io
from awscrt import auth, http


def signed(request: dict[str, str]) -> str:
    """The ``Authorization`` header of one request. Its path is percent-encoded once, as it goes on the wire."""
    body = request["body"].encode()
    headers = http.HttpHeaders([("host", request["host"]), ("content-type", "application/json")])
    message = http.HttpRequest("POST", request["path"], headers, awscrt.io.InputStream(io.BytesIO(body)))
    keys = auth.AwsCredentialsProvider.new_static(request["access_key"], request["secret_key"], request["token"])
    config = auth.AwsSigningConfig(
        algorithm=auth.AwsSigningAlgorithm.V4,
        signature_type=auth.AwsSignatureType.HTTP_REQUEST_HEADERS,
        credentials_provider=keys,
        region=request["region"],
        service="bedrock",
        date=dt.datetime.strptime(request["date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC),
        use_double_uri_encode=True,
        should_normalize_uri_path=True,
    )
    done = auth.aws_sign_request(message, config).result(10)
    return next(str(value) for name, value in done.headers if name.lower() == "authorization")


if __name__ == "__main__":
    json.dump([signed(request) for request in json.load(sys.stdin)], sys.stdout)
