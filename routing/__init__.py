"""Choice of the worker that answers a request. Time and random numbers are arguments, and no code does I/O."""
