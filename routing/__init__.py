"""The choice of the worker that answers. Pure: time and randomness are arguments."""
