"""Select the worker that answers a request. Time and random numbers are arguments, and the code does no I/O."""
