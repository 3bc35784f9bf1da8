"""Runs the sushy-tools emulator unchanged, and ends it when standard input closes.

The test process holds the other end of standard input: however it dies, no emulator is left behind.
"""

import os
import sys
import threading

from sushy_tools.emulator import main


def end_with_the_parent():
    while os.read(0, 4096):
        pass
    os._exit(0)


threading.Thread(target=end_with_the_parent, daemon=True).start()
sys.exit(main.main())
