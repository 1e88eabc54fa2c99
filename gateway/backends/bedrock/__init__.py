"""Amazon Bedrock behind the `Backend` seam: text chat by Converse and ConverseStream.

Pure:
    request.py      an OpenAI chat body -> Converse JSON
    answer.py       a Converse answer -> an OpenAI chat completion
    stream.py       events of ConverseStream -> OpenAI chunks, one by one
    frame.py        one message of the event stream: an event, or a fault
    json_object.py  reading JSON that somebody else made
    errors.py       what Bedrock says went wrong, in our words
With I/O:
    aws.py          credentials, signature, frame parser: the only module that touches botocore
    endpoint.py     one model's address: signed requests out over HTTP
    reply.py        the replies, read from the network as they come
    backend.py      `BedrockBackend`, which joins them

Tools, images and structured output are refused by name in request.py; answer.py and stream.py rely on that.
"""
