"""``python -m benchmarks.scenarios``."""

import sys

from benchmarks.scenarios.command import main

sys.exit(main())
