"""Which worker should answer, and in what order to try the rest. Pure: time and randomness are arguments."""
