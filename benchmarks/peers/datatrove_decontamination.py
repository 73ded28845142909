"""datatrove's n-gram decontamination on the data of `benchmarks/contamination.py`; runs in an environment that has it.

    python datatrove_decontamination.py DATA.json N SHARE

The index is built from its own filter's tokenizer, normaliser and hash, as its indexer does (which itself also needs
lighteval). Exit code 3, and the reason on standard output, where something is not installed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(folder: str) -> None:
    data, n, share = json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), float(sys.argv[3])
    try:
        import numpy as np
        from datatrove.data import Document
        from datatrove.pipeline.decont import NGramsDecontFilter
        from datatrove.pipeline.decont.n_grams import NGramsDecontConfig
        from datatrove.utils.text import ngrams, simplify_text

        config = NGramsDecontConfig(n_grams=n)
        peer = NGramsDecontFilter(folder, config=config)
        peer.tokenizer.word_tokenize("load the tokenizer")
    except ImportError as error:
        print(error)
        sys.exit(3)
    texts = data["texts"][: int(len(data["texts"]) * share)]
    strings = data["strings"][::10]  # its tokenizer would take minutes over all of them
    before, started = resident(), time.process_time()
    hashes: set[int] = set()
    for string in strings:
        words = peer.tokenizer.word_tokenize(simplify_text(string, config.norm_config))
        hashes.update(peer.hash_func(" ".join(gram)) for gram in ngrams(words, n))
    np.array(list(hashes), config.hash_config.np_descr).tofile(Path(folder) / "eval.index.hashes")
    del hashes
    peer.load_index_hashes()
    built, held = time.process_time(), resident() - before
    hits = sum(peer.filter(Document(text=text, id=str(i))) is not True for i, text in enumerate(texts))
    seconds = time.process_time() - built
    size = sum(len(text.encode()) for text in texts)
    row = {
        "build_s": round((built - started) * 10, 1),
        "index_mb": round(held * 10 / 1e6, 1),
        "mb_per_s": round(size / 1e6 / seconds, 3),
        "texts": len(texts),
        "hits": hits,
        "note": "build and memory scaled up from a tenth of the strings",
    }
    print(json.dumps(row))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(scratch)
