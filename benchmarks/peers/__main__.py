"""`python -m benchmarks.peers`: compare Warmgate with other routers."""

import sys

from benchmarks.peers.command import main

if __name__ == "__main__":
    sys.exit(main())
