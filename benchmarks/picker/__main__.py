"""``python -m benchmarks.picker``."""

import sys

from benchmarks.picker.command import main

if __name__ == "__main__":
    sys.exit(main())
