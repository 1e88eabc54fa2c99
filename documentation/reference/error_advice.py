"""Advice of docs/reference/errors.md about each error, by the name of its class."""

from collections.abc import Mapping
from types import MappingProxyType

ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "GatewayError": "Report the fault with the `x-request-id` of the answer. The program log has the traceback.",
        "MalformedBody": "Correct the request. The error message names the position of the fault.",
        "InvalidField": "Correct the field that `param` names.",
        "PromptTooLong": "Shorten the prompt, or lower `max_tokens`, or use a model with a longer context.",
        "ContentBlocked": "Change the text. The operator can see in the log line which guardrail acted.",
        "InvalidKey": "Send a valid key in `authorization: Bearer KEY`, or ask the administrator for a key.",
        "Forbidden": "See [reasons for status 403](#reasons-for-status-403).",
        "RateLimited": "Wait for the time in `retry-after`. The error message names the limit.",
        "QuotaSpent": "Do not retry. Ask the administrator for a larger budget, or send a smaller request.",
        "UnknownEntity": "List the teams or keys to find the right name.",
        "Conflict": "Read the object, and do what the error message says.",
        "DeclaredElsewhere": "Change the object in the settings file.",
        "Overtaken": "Read the object again, and repeat the change if the change is still needed.",
        "PreconditionFailed": "Read the object again, and repeat the change with its current `etag`.",
        "AdminKeyRefused": "Send the secret of an entry of `admin.keys`.",
        "AdminClosed": "Add a key to `admin.keys`.",
        "UnknownModel": "Use a name that `GET /v1/models` lists.",
        "UnknownResponse": "Send the whole conversation instead of `previous_response_id`.",
        "UnknownFile": "Use an id that `GET /v1/files` lists.",
        "UnknownBatch": "Use an id that `GET /v1/batches` lists.",
        "UnknownWorker": "Use an id that `warmgate workers list` shows.",
        "UnknownRoute": "Use a path of the page [Endpoints](routes.md). The error message can name a suitable path.",
        "MethodNotAllowed": "Use a method that the header `allow` names.",
        "RequestTooSlow": (
            "Send the request faster, or raise `server.body_idle_s` or lower `server.min_body_bytes_per_s`."
        ),
        "BodyTooLarge": "Send a smaller body, or raise `server.max_body_bytes`. For a file, the message names "
        "the limit.",
        "UnsupportedMedia": "Send the body as JSON, or as a form to the audio endpoints, and use a supported "
        "`content-encoding`.",
        "HeadTooLarge": "Send fewer or shorter headers, or raise `server.max_header_bytes`.",
        "TooManyConnections": "Reuse connections, or raise `server.max_connections` or "
        "`server.max_connections_per_address`.",
        "AtCapacity": (
            "Retry after the time in `retry-after`, add a gateway, or raise `server.max_concurrent_requests`."
        ),
        "NoWorker": "Retry after the time in `retry-after`. `GET /readyz` says why no worker is available.",
        "QueueFull": "Retry after the time in `retry-after`, add workers, or configure a fallback.",
        "StoreUnavailable": "Retry after the time in `retry-after`. The operator has to restore the store.",
        "IssuerUnavailable": "Retry after the time in `retry-after`. The operator should check `identity.issuers`.",
        "StoreRefuses": "The operator has to read the message and correct the store.",
        "StoreUnfit": "The operator has to correct the store: `warmgate store check` says what is wrong.",
        "FilesUnavailable": "Retry after the time in `retry-after`. The operator has to make the folder `files.folder` "
        "writable and free space on its disk, or make the bucket `files.s3` reachable.",
        "ContentMissing": "The operator has to give all gateways with the same store the same `files.folder` or "
        "`files.s3`.",
        "MemoryShort": "Retry after the time in `retry-after`, add a gateway, or raise `server.max_memory_bytes` or "
        "`server.max_bodies_bytes`.",
        "GuardrailUnavailable": (
            "Retry after the time in `retry-after`. The operator has to restore the guardrail's service."
        ),
        "TooMuchToScan": "Send less text, or raise the time limit of the guardrail.",
        "Stopping": "Retry at once. Another gateway, or the gateway after its restart, answers.",
        "UpstreamError": "Retry the request later.",
        "ConnectFailed": "Retry later. The operator should look at `warmgate_worker_up`.",
        "UpstreamTimeout": "Retry later, or raise the limits of `timeouts`. The message says which step took too long.",
        "ReplyBroken": "Retry the request. The operator should read the log of the worker.",
        "HandedOver": "Retry the request.",
        "PrefillFailed": "Retry later. The operator should look at the prefill workers.",
        "AdapterMissing": "Retry later, or load the LoRA adapter on the workers.",
        "UpstreamRefused": "Retry the request later. The error message is the message of the backend.",
    }
)

FORBIDDEN: Mapping[str, str] = MappingProxyType(
    {
        "limit_template_missing": "The settings do not have the limit template that the team or the key names, so its "
        "limits are not known. Add the template to `limit_templates`, or give the team or key another one.",
        "model_not_allowed": "The key or its team is not allowed to use the model. Ask the administrator, or use "
        "another model.",
        "batch_needs_key": "Create the batch with an API key of the team instead of a token.",
        "beyond_team": "An owner of a team can give a key no more than the team has. Change the field in `param`, or "
        "ask an owner of all teams.",
        "no_role": (
            "No rule gives the token a role in the admin API. Send an admin key, or ask for a change of "
            "`identity.issuers[].admin_roles`."
        ),
        "no_team": (
            "No rule gives the token a team. The operator has to change `identity.issuers[].rules`, or to add the team."
        ),
        "team_limit": "The team of the token cannot be created. The operator has to delete teams, or raise "
        "`identity.max_teams`.",
        "source_not_allowed": "The key is not allowed for this client address. Send the request from an address in "
        "the key's `allowed_cidrs`.",
        "strategy_not_allowed": "The team is not allowed to choose the strategy in `x-warmgate-strategy`. Omit this "
        "header.",
        "limited_to_team": "The admin key has a team (`admin.keys[].team`), and the route shows data of all teams. Use "
        "an admin key without a team.",
        "other_team": "The admin key has a team (`admin.keys[].team`) and cannot read the data of other teams.",
        "role_not_sufficient": "The role of the admin key does not allow the action. Use a key with the role that the "
        "message names.",
        "open_mode": "The gateway has no teams and accepts only programs on its own machine. Configure teams, or set "
        "`server.open_mode`.",
        "origin_not_allowed": "The web page that sent the request has an origin that is not in `server.cors_origins`. "
        "Add the origin.",
    }
)
"""Meaning and remedy of the codes of `Forbidden`."""
