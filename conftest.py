"""For all tests: Ctrl-C works in the processes that they start.

A shell lets what it starts in the background ignore SIGINT, and every process started from there
inherits it; the tests of Ctrl-C would then wait for ever.
"""

import signal

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
