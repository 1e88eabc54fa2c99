"""Amazon Bedrock behind the `Backend` seam: chat by Converse and ConverseStream, or in OpenAI's own words.

What goes out, pure:
    request.py        an OpenAI chat body -> Converse JSON; the others are its parts
    message.py        one message of a chat -> blocks
    conversation.py   the turns, by turns, and each tool call with its result
    images.py, documents.py, data_url.py, json_depth.py
                      media and other values of somebody else's, within Bedrock's limits
    tools.py, tool_config.py, tool_names.py
                      what the model may call, and under which names
    output_format.py, schema.py
                      JSON that the answer is to be
    parameters.py, reasoning_effort.py
                      every other field, and how it is treated
    family.py         what each family of models takes
    output_caps.py    the most output of each model
    refusals.py       what a target has refused, and no later request asks of it
    unsupported_parameters.py
                      a request without what Bedrock says the model does not support
What comes back, pure:
    answer.py         a Converse answer -> an OpenAI chat completion
    stream.py         events of ConverseStream -> OpenAI chunks, one by one
    frame.py          one message of the event stream: an event, or a fault
    stops.py          stop strings that the gateway finds itself
    inline_reasoning.py
                      reasoning that a model writes into its answer
    json_answer.py    JSON out of an answer that was asked for it in words
    json_object.py    reading JSON that somebody else made
    errors.py         what Bedrock says went wrong, in our words
Both together, pure:
    wire.py           what a wire is: a call -> a question, which can read its answer
    converse_wire.py  Converse
    openai_wire.py    OpenAI's chat completions, which Bedrock serves for some models
With I/O:
    aws.py            credentials, signature, frame parser: the only module that touches botocore
    bearer.py         an API key in place of the signature
    endpoint.py       Bedrock's address in one region: signed requests out over HTTP
    reply.py          the replies, read from the network as they come
    backend.py        `BedrockBackend`, which joins them
"""
