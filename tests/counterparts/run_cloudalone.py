"""Runs cloudalone unchanged, over TLS, until standard input closes: PORT CERTIFICATE KEY.

Its own command serves without TLS, and imports libvirt whatever the backend; an empty module stands in for that.
"""

import sys
import types

import ending
import uvicorn

sys.modules["libvirt"] = types.ModuleType("libvirt")
port, certificate, key = sys.argv[1:]
ending.with_the_parent()
uvicorn.run("cloudalone.app:app", host="127.0.0.1", port=int(port), ssl_certfile=certificate, ssl_keyfile=key)
