"""The version tells two builds of one release apart."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from base.core.env import commit, version

FIRST = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**FIRST, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("kind", ["branch", "packed", "detached", "worktree"])
def test_it_has_the_commit_of_the_clone(kind: str, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    git(clone, "init", "-q", "-b", "main")
    git(clone, "commit", "-q", "--allow-empty", "-m", "first")
    if kind == "packed":
        git(clone, "pack-refs", "--all")
    elif kind == "detached":
        git(clone, "checkout", "-q", "--detach")
    elif kind == "worktree":
        git(clone, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
        clone = tmp_path / "tree"
    assert commit(clone) == git(clone, "rev-parse", "HEAD")
    assert version("0.1.0", "", clone) == f"0.1.0+{commit(clone)[:7]}"


def test_a_build_has_its_own_name_and_sources_alone_have_none(tmp_path: Path) -> None:
    assert version("0.1.0", "night-7", tmp_path) == "0.1.0+night-7"
    assert version("0.1.0", "", tmp_path) == "0.1.0"
