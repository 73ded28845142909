"""Every kind of seed corpus that a job can name. A new kind needs one file, and one line in this table."""

from collections.abc import Callable
from typing import Any

from foil.engine.protocols import SeedReader
from foil.engine.seeds.beir import BeirReader, BeirSettings
from foil.engine.seeds.leetcode import LeetcodeReader, LeetcodeSettings
from foil.engine.seeds.metamath import MetamathReader, MetamathSettings
from foil.engine.seeds.msmarco import MsmarcoSettings, msmarco_reader
from foil.engine.seeds.python_docs.reader import PythonDocsReader, PythonDocsSettings
from foil.engine.seeds.robust04 import Robust04Reader, Robust04Settings
from foil.engine.seeds.table import TableReader, TableSettings
from foil.engine.settings import Settings

READERS: dict[str, tuple[type[Settings], Callable[[Any], SeedReader]]] = {
    "beir": (BeirSettings, BeirReader),
    "leetcode": (LeetcodeSettings, LeetcodeReader),
    "metamath": (MetamathSettings, MetamathReader),
    "msmarco": (MsmarcoSettings, msmarco_reader),
    "python_docs": (PythonDocsSettings, PythonDocsReader),
    "robust04": (Robust04Settings, Robust04Reader),
    "table": (TableSettings, TableReader),
}
