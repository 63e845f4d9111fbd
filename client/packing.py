"""Says what of a folder goes along with a job: all but what ``.longshoreignore`` leaves out, which is written like a
``.gitignore``, or where there is none the ``.gitignore``; never what nobody wants there."""

from __future__ import annotations

from pathlib import Path

from .errors import WrongConfig
from .pai_fs.places import FoundFiles, LocalSide

RULES = (".longshoreignore", ".gitignore")
NEVER = (".git", "__pycache__", "node_modules", ".venv", ".ipynb_checkpoints", ".DS_Store", "*.pyc")


class PackedFolder(LocalSide):
    """A folder of this machine without what is left out. ``left`` counts that."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        from pathspec import GitIgnoreSpec

        rules = next((file for name in RULES if (file := Path(path, name)).is_file()), None)
        lines = rules.read_text(errors="replace").splitlines() if rules else []
        try:
            self._spec = GitIgnoreSpec.from_lines([*lines, *NEVER])
        except ValueError as error:
            raise WrongConfig(f"{rules} cannot be read: {error}") from None
        self.left = 0

    def _look(self, name: str, above: frozenset[tuple[int, int]], found: FoundFiles) -> tuple[int, int] | None:
        if self._spec.match_file(f"{name}/" if self._at(name).is_dir() else name):
            self.left += 1
            return None
        return super()._look(name, above, found)
