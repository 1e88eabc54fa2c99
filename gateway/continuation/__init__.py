"""A stream that goes on: what is kept of an answer, so that another worker can take it up where the first broke off."""
