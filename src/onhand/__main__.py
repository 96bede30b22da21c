"""`python -m onhand` is the command `onhand`."""

import sys

from onhand.cli.main import main

sys.exit(main())
