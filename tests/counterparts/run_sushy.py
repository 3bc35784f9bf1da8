"""Runs the sushy-tools emulator unchanged, until standard input closes."""

import sys

import ending
from sushy_tools.emulator import main

ending.with_the_parent()
sys.exit(main.main())
