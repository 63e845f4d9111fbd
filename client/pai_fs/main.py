"""The command line of ``pai-fs``."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from .bar import ProgressBar
from .checksums import sha1
from .config import NAMENODE_PORT, Config, config_file, configure, is_configured, load
from .copying import CopyOptions, copy
from .errors import LeftOut, NoSuchPath, NotEmpty, PaiFsError, Unreachable, WrongUsage
from .places import SCHEME, place, store_path
from .remote import Remote, RemoteEntry

FIRST = "pai-fs --config host=portal.lab port=9186 user=mira"


def main() -> None:
    """The program. When interrupted it does not wait for threads that wait for an answer."""
    code = run()
    if code == 130:
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 fine, 1 failed, 2 wrong usage, 3 not found, 4 not allowed, 5 not empty, 6 copied wrongly, 7
    copied but for what cannot be, 100 a copy broke off too often, 130 interrupted."""
    asked = _parser().parse_args(arguments)
    try:
        if asked.config is not None:
            _configure(asked.config)
        else:
            _do(asked, Remote(_config(asked)))
        return 0
    except KeyboardInterrupt:
        print("pai-fs: interrupted; the same command goes on where it was", file=sys.stderr)
        return 130
    except Exception as error:
        if asked.debug:
            traceback.print_exc()
        print(f"pai-fs: {_sentence(error)}", file=sys.stderr)
        if isinstance(error, Unreachable) and asked.config is None and not asked.host and not is_configured():
            print(f"pai-fs: nothing says yet where the store is: {FIRST}", file=sys.stderr)
        return error.code if isinstance(error, PaiFsError) else 1


def _sentence(error: Exception) -> str:
    if isinstance(error, PaiFsError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"This went wrong: {error} ({type(error).__name__}); -d shows where."


def _configure(pairs: Sequence[str]) -> None:
    config = configure(pairs)
    how = "signed in" if config.token else "by name"
    print(f"{config.url} as {config.user}, {how}; kept in {config_file()}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pai-fs",
        description="Files between this machine and the store. hdfs://a/b is /a/b in the store, anything else is here.",
        epilog=f"First: {FIRST}",
    )
    verbs = parser.add_mutually_exclusive_group()
    for name, (options, what, _) in _VERBS.items():
        verbs.add_argument(*options, dest=name, action="store_true", help=what)
    verbs.add_argument("--config", nargs="+", metavar="K=V", help="keep host, port and user; sign in to a portal")
    parser.add_argument("-r", "--recursive", action="store_true", help="folders with all that is in them")
    parser.add_argument("-f", "--force", action="store_true", help="replace what is there")
    parser.add_argument("-v", "--verbose", action="store_true", help="accepted; it always says what it did")
    parser.add_argument("-i", "--info", action="store_true", help="say which server is asked")
    parser.add_argument("-d", "--debug", action="store_true", help="show where an error comes from")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int, help=f"of the portal, or of a NameNode ({NAMENODE_PORT})")
    parser.add_argument("--user")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    return parser


def _config(asked: argparse.Namespace) -> Config:
    config = load(host=asked.host)
    if asked.host and asked.host != config.host:  # a token is for the host that gave it
        config = replace(config, host=asked.host, token="", port=NAMENODE_PORT)
    if asked.port:
        config = replace(config, port=asked.port, token=config.token if asked.port == config.port else "")
    if asked.user and asked.user != config.user:
        config = replace(config, user=asked.user, token="")
    if asked.info:
        print(f"{config.url} as {config.user}", file=sys.stderr)
    return config


def _do(asked: argparse.Namespace, remote: Remote) -> None:
    verb = next((name for name in _VERBS if getattr(asked, name)), None)
    if verb is None:
        raise WrongUsage("Say what to do: -ls, -cp, -rm, -mkdir, -mv or --hash. See pai-fs --help.")
    wanted = 2 if verb in ("copy", "move") else 1
    if len(asked.paths) < wanted or (wanted == 2 and len(asked.paths) > 2):
        raise WrongUsage(
            f"-{'cp' if verb == 'copy' else 'mv'} takes two paths; put 'SOURCE/*' in quotes."
            if wanted == 2
            else "Name a path."
        )
    began = time.monotonic()
    _VERBS[verb][2](asked, remote)
    if verb != "copy":
        print(f"took {time.monotonic() - began:.2f} s", file=sys.stderr)


# --- verbs -----------------------------------------------------------------------------------------------------------


def _list(asked: argparse.Namespace, remote: Remote) -> None:
    for text in asked.paths:
        entries = remote.list(_far(text))
        print(f"total {len(entries)}")
        for entry in sorted(entries, key=lambda entry: entry.path):
            print(_line(entry))
        print(f"size {sum(entry.size for entry in entries)}")


def _line(entry: RemoteEntry) -> str:
    kind = stat.S_IFDIR if entry.is_dir else stat.S_IFREG
    date = datetime.fromtimestamp(entry.modified / 1000).strftime("%Y-%m-%d %H:%M:%S")
    mode = stat.filemode(kind | entry.mode)
    return (
        f"{mode} {entry.children:>4} {entry.owner:<12} {entry.group:<12} {entry.size:>14} {date} {_shown(entry.name)}"
    )


def _shown(name: str) -> str:
    """The name without control characters, which a terminal could obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in name)


def _copy(asked: argparse.Namespace, remote: Remote) -> None:
    source, target = asked.paths
    contents = source.endswith("/*")
    began = time.monotonic()
    bar = ProgressBar()
    try:
        done = copy(
            place(source.removesuffix("/*") if contents else source, remote),
            place(target, remote),
            CopyOptions(contents=contents, into=target.endswith("/"), recursive=asked.recursive, force=asked.force),
            bar,
        )
    finally:
        bar.clear()
    seconds = max(time.monotonic() - began, 1e-3)
    print(f"copied {done} in {seconds:.2f} s, {done.size / 1e6 / seconds:.1f} MB/s")
    if done.left_out:
        raise LeftOut(f"left out, as said above: {done.left_out}")


def _remove(asked: argparse.Namespace, remote: Remote) -> None:
    for text in asked.paths:
        path = _far(text)
        entry = remote.find(path)
        if entry is None:
            if asked.force:
                continue
            raise NoSuchPath(f"{text} does not exist.")
        if entry.is_dir and not asked.recursive and remote.list(path):
            raise NotEmpty(f"{text} is not empty; use -r.")
        remote.delete(path, recursive=asked.recursive)
        print(f"removed {text}")


def _make_directory(asked: argparse.Namespace, remote: Remote) -> None:
    for text in asked.paths:
        remote.mkdirs(_far(text))
        print(f"made {text}")


def _move(asked: argparse.Namespace, remote: Remote) -> None:
    source, target = (_far(text) for text in asked.paths)
    remote.stat(source)
    there = remote.find(target)
    if there is not None and there.is_dir:
        target = f"{target.rstrip('/')}/{source.rsplit('/', 1)[-1]}"
        there = remote.find(target)
    if source == target:
        raise PaiFsError(f"{asked.paths[0]} is there already.")
    if there is not None:
        if not asked.force or there.is_dir:
            raise PaiFsError(f"{SCHEME}{target[1:]} exists already{'' if there.is_dir else '; -f replaces it'}.")
        remote.delete(target, recursive=False)
    remote.rename(source, target)
    print(f"moved {asked.paths[0]} to {asked.paths[1]}")


def _hash(asked: argparse.Namespace, remote: Remote) -> None:
    for text in asked.paths:
        location = place(text, remote)
        is_dir = location.is_dir()
        if is_dir is None:
            raise NoSuchPath(f"{text} does not exist.")
        if is_dir:
            raise PaiFsError(f"{text} is a folder; name a file.")
        print(f"{sha1(location.read('', 0, None)).hexdigest()}  {text}")


def _far(text: str) -> str:
    if not text.startswith(SCHEME):
        raise WrongUsage(f"{text} is on this machine. A path in the store begins with {SCHEME}")
    return store_path(text)


# By name: options, help, and what does it.
_VERBS: dict[str, tuple[tuple[str, ...], str, Callable[[argparse.Namespace, Remote], None]]] = {
    "list": (("-ls", "--list"), "list a folder", _list),
    "copy": (("-cp", "--copy"), "copy files or, with -r, folders; SOURCE/* is what is in it", _copy),
    "remove": (("-rm", "--remove"), "remove files or, with -r, folders", _remove),
    "makeDirectory": (("-mkdir", "--makeDirectory"), "make a folder and those above it", _make_directory),
    "move": (("-mv", "--move"), "move or rename within the store", _move),
    "hash": (("--hash",), "SHA-1 of files", _hash),
}


if __name__ == "__main__":
    main()
