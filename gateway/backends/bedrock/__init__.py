"""Backend for Amazon Bedrock, which calls chat models through Converse, ConverseStream or OpenAI chat completions.

Building requests, without I/O:
    request.py        an OpenAI chat body -> Converse JSON, with the help of the modules below
    message.py        one chat message -> content blocks
    conversation.py   messages -> alternating turns, with a result for each tool call
    images.py, documents.py, data_url.py, json_depth.py
                      the client's images, files and JSON, within Bedrock's limits
    tools.py, tool_config.py, tool_names.py
                      tools that the model may call, and their names
    output_format.py, schema.py
                      structured output and JSON schemas
    parameters.py, reasoning_effort.py
                      all other request fields
    family.py         request features that each model family supports
    output_caps.py    output token limit of each model
    refusals.py       fields and limits that a target has rejected, so that later requests avoid them
    unsupported_parameters.py
                      requests without the field that Bedrock reports as unsupported
Reading responses, without I/O:
    answer.py         a Converse response -> an OpenAI chat completion
    stream.py         ConverseStream events -> OpenAI chunks, one by one
    frame.py          one message of the event stream: an event or an error
    stops.py          stop strings that the gateway applies itself
    inline_reasoning.py
                      reasoning that a model writes into its text
    json_answer.py    JSON extracted from text
    json_object.py    parser of untrusted JSON objects
    errors.py         Bedrock's errors, translated for clients
Requests together with their responses, without I/O:
    wire.py           the protocol: a wire turns a call into a request that can read its response
    converse_wire.py  Converse
    openai_wire.py    OpenAI chat completions, which Bedrock serves for some models
With I/O:
    aws.py            credentials, signature and frame parser; the only module that uses botocore
    bearer.py         an API key instead of the signature
    endpoint.py       signed HTTP requests to Bedrock in one region
    reply.py          responses, read from the network as they arrive
    backend.py        `BedrockBackend`, which combines all of the above
"""
