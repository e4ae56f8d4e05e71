"""Every job of the project's development; each does the whole set-up by itself.

`python tools/dev.py --help` lists the jobs. Only the standard library is needed to start: the
first job makes a virtual environment in the checkout, installs the packages into it in editable
form, and builds the native library.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (an older Python shall say so instead of failing oddly)
    sys.exit(
        "tools/dev.py needs Python 3.11 or newer, this is %d.%d (%s)"  # noqa: UP031
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )

from _dev.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
