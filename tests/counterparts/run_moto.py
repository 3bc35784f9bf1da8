"""Runs the moto server unchanged, with its command line, until standard input closes."""

import sys

import ending
from moto.server import main

ending.with_the_parent()
main(sys.argv[1:])
