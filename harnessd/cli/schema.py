"""What does the data look like, for programs that read it?"""

from pathlib import Path

import click
import orjson

from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.errors import StorageError, UsageError
from harnessd.facts.schema import schemas


@click.command("schema")
@click.argument("name", required=False)
@click.option("--out", "folder", type=click.Path(path_type=Path), help="Write NAME.schema.json files into this folder.")
@shared
def schema(name: str | None, folder: Path | None, out: Output, flags: Flags) -> int:
    """Print the JSON Schema NAME, or all of them by name: events, deltas, state, view, control."""
    known: dict[str, dict[str, object]] = schemas()
    if name is not None and name not in known:
        raise UsageError(f"there is no schema {name!r}", hint=f"there are: {', '.join(known)}")
    wanted = known if name is None else {name: known[name]}
    if folder is not None:
        for written in _write(wanted, folder):
            if out.as_json:
                out.record({"path": str(written)})
            else:
                out.line(str(written))
    elif out.as_json:
        for one in wanted.values():
            out.record(one)
    else:
        shown = wanted if name is None else wanted[name]
        out.line(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode())
    return 0


def _write(wanted: dict[str, dict[str, object]], folder: Path) -> list[Path]:
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, one in wanted.items():
            path = folder / f"{name}.schema.json"
            path.write_bytes(orjson.dumps(one, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
            written.append(path)
    except OSError as error:
        where = str(error.filename or folder)
        raise StorageError(f"cannot be written: {error.strerror}", where=where, hint="choose another --out") from error
    return written
