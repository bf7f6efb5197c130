"""`python -m headwise` is `headwise`."""

import sys

from headwise.cli.app import main

sys.exit(main())
