"""`python -m benchmarks.peers.routing`: compare Warmgate's routing with other routers on recorded traffic."""

import sys

from benchmarks.peers.routing.command import main

if __name__ == "__main__":
    sys.exit(main())
