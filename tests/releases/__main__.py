from __future__ import annotations

import sys

from tests.releases import make

if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "make":
        sys.exit("python -m tests.releases make COMMIT NAME")
    make(sys.argv[2], sys.argv[3])
