"""`python -m tidegate_tools.cli`: the command `tidegate` without its script."""

import sys

from tidegate_tools.cli import main

sys.exit(main())
