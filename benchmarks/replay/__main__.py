"""``python -m benchmarks.replay``."""

import sys

from benchmarks.replay.command import main

sys.exit(main())
