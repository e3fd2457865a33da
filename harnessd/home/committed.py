"""What the definition files are in a commit or tree, read anew only where trees differ."""

from collections.abc import Mapping

from harnessd.home.git import FOLDER, Entry, GitStore
from harnessd.home.layout import DEFINITION_FOLDERS
from harnessd.home.scan import ROOT_FILES

_TREES_KEPT = 20_000


class CommittedFiles:
    """Flat views of trees. A folder of thousands of skills is parsed once, not once for each skill."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._trees: dict[str, Mapping[str, Entry]] = {}
        self._views: dict[str, Mapping[str, Entry]] = {}

    def at(self, treeish: str | None) -> Mapping[str, Entry]:
        """Path → entry of every definition file, link and nested repository; empty for None."""
        if treeish is None:
            return {}
        view = self._views.get(treeish)
        if view is None:
            view = self._views[treeish] = self._read(treeish)
            # HEAD and the tree that was last good are asked for in turn; older ones are not.
            while len(self._views) > 3:
                del self._views[next(iter(self._views))]
        return view

    def _read(self, treeish: str) -> dict[str, Entry]:
        if len(self._trees) > _TREES_KEPT:
            self._trees.clear()
        root, view = self._store.root(treeish), dict[str, Entry]()
        for name in (*ROOT_FILES, *DEFINITION_FOLDERS):
            if name in root:
                self._add(name, root[name], view)
        return view

    def _add(self, path: str, entry: Entry, view: dict[str, Entry]) -> None:
        if entry.mode != FOLDER:
            view[path] = entry
            return
        below = self._trees.get(entry.id)
        if below is None:
            below = self._trees[entry.id] = self._store.root(entry.id)
        for name, inner in below.items():
            self._add(f"{path}/{name}", inner, view)
