"""`python -m benchmarks.peers.routing`."""

import sys

from benchmarks.peers.routing.command import main

if __name__ == "__main__":
    sys.exit(main())
