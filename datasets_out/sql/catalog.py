"""The views of runs as a DuckDB file, for programs that open one: they read the committed files where they lie.

Promise: the file is new, there whole or not at all, and holds no rows. Price: it knows the partitions of now, by their
absolute paths; later partitions, and a run that was moved, need a new file.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from foil.datasets_out.sql.views import views_script
from foil.engine.atomic_files import link_if_absent, write_new
from foil.engine.errors import UsageError


def write_catalog(runs: Mapping[str, Path], file: Path, snapshot: str | None = None) -> None:
    """Writes the views of `views_script` to a new DuckDB file. Raises UsageError where it cannot be new."""
    script = views_script(runs, snapshot)
    try:
        with TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
            draft = Path(folder) / "catalog.duckdb"
            with duckdb.connect(str(draft)) as connection:
                connection.execute(script)
            linked = link_if_absent(write_new(file.parent, f".{file.name}", draft.read_bytes()), file)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}; give the path of a new file") from error
    if not linked:
        raise UsageError(f"cannot write {file}: File exists; give the path of a new file")
