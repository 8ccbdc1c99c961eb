"""`python -m tfapp`."""

import sys

from tfapp.cli.main import main

sys.exit(main())
