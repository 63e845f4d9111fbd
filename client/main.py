"""Begins the command ``longshore``. It imports the rest where Ctrl-C is a sentence already."""

from __future__ import annotations

import os
import sys


def main() -> None:
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed, as by `longshore run ... <&-`
            setattr(sys, name, open(os.devnull, how, encoding="utf-8"))
    try:
        from . import commands

        commands.main(prog_name="longshore")
    except KeyboardInterrupt:
        os.write(2, b"longshore: Interrupted.\n")
        os._exit(130)


if __name__ == "__main__":
    main()
