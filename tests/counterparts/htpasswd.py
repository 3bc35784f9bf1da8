"""Reads a user name and a password, a line each, and prints a bcrypt line of cost 4 for a password file.

Cost 4 is the least that bcrypt has: each request is checked anew, and the default costs 200 ms of it.
"""

import sys

import bcrypt

user, password = sys.stdin.buffer.read().split(b"\n")[:2]
sys.stdout.buffer.write(user + b":" + bcrypt.hashpw(password, bcrypt.gensalt(4)) + b"\n")
