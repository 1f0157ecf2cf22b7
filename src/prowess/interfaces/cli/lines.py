"""JSON lines, to stdout or to a file that appears when all of it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from prowess.errors import Invalid, NotFound

Write = Callable[[Any], None]


@contextmanager
def line_writer(path: Path | None) -> Generator[Write]:
    """A function that writes one value a line. The file is its owner's alone; it is not touched where the block raises."""
    from prowess.interfaces.cli.printing import print_json_line, shown_path

    if path is None:
        yield print_json_line
        return
    from prowess.storage.atomic import refuse_link

    refuse_link(path)
    if not path.parent.is_dir():
        raise NotFound(
            f"There is no folder {shown_path(path.parent)} to write {shown_path(path.name)} into.",
            hint="Make it first.",
        )
    if path.is_dir():
        raise Invalid(f"{shown_path(path)} is a folder.", hint="Name a file.")
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".prowess-tmp-", delete=False) as file:
        try:
            yield lambda value: print(json.dumps(value, ensure_ascii=True), file=file)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
