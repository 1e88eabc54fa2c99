"""Gain of the strategies on recorded traffic, in virtual time: the production router before simulated engines.

Every request goes through the objects that serve in production (`routing.fleet`, `routing.dispatcher`, a strategy, the
index) to engines of the `fifo` timing model; only the clock is another. So half an hour of traffic on eight GPUs takes
seconds, and the same seed gives the same figures. Policies of others are driven through the same seam.
"""
