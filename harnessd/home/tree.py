"""Which git tree a set of files makes: pure, without a repository."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field


def blob_id(raw: bytes) -> str:
    """The id git gives to these bytes as a blob (SHA-1)."""
    return _object_id(b"blob", raw)


def tree_of(files: Mapping[str, tuple[int, str]]) -> tuple[str, dict[str, bytes]]:
    """The id of the tree that holds `files` (path → mode, blob id), and every tree below it as id → bytes."""
    root = _Folder()
    for path, entry in files.items():
        *folders, name = path.split("/")
        level = root
        for folder in folders:
            level = level.folders.setdefault(folder, _Folder())
        level.files[name] = entry
    made: dict[str, bytes] = {}
    return _write(root, made), made


@dataclass(slots=True)
class _Folder:
    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    folders: dict[str, "_Folder"] = field(default_factory=dict)


def _write(level: _Folder, made: dict[str, bytes]) -> str:
    entries = [(name.encode(), mode, blob) for name, (mode, blob) in level.files.items()]
    entries += [(name.encode(), 0o40000, _write(below, made)) for name, below in level.folders.items()]
    # Git sorts a folder as if its name ended in a slash.
    entries.sort(key=lambda entry: entry[0] + b"/" if entry[1] == 0o40000 else entry[0])
    raw = b"".join(b"%o %s\0%s" % (mode, name, bytes.fromhex(object_id)) for name, mode, object_id in entries)
    tree = _object_id(b"tree", raw)
    made[tree] = raw
    return tree


def _object_id(kind: bytes, raw: bytes) -> str:
    digest = hashlib.sha1(b"%s %d\0" % (kind, len(raw)), usedforsecurity=False)
    digest.update(raw)  # not joined with its head: the bytes of a large file are not copied
    return digest.hexdigest()
