"""distilabel on the prompts of benchmarks/generation.py, one TextGeneration task; runs in an environment that has it.

One batch is in flight at a time, so `input_batch_size` is the concurrency asked for. Its cache is off.
"""

from __future__ import annotations

import argparse
import os
import tempfile

from generation_prompts import MAX_TOKENS, MODEL, SYSTEM, TEMPERATURE, measured, usable, user

os.environ["HF_HUB_OFFLINE"] = "1"


def work(told: argparse.Namespace) -> int:
    from distilabel.models.llms import OpenAILLM
    from distilabel.pipeline import Pipeline
    from distilabel.steps import LoadDataFromDicts
    from distilabel.steps.tasks import TextGeneration

    with tempfile.TemporaryDirectory() as folder, Pipeline(name="bench", cache_dir=folder) as pipeline:
        rows = [{"instruction": user(i), "system_prompt": SYSTEM} for i in range(told.requests)]
        load = LoadDataFromDicts(data=rows, batch_size=told.concurrency)
        llm = OpenAILLM(
            model=MODEL,
            base_url=told.base_url,
            api_key="none",
            generation_kwargs={"max_new_tokens": MAX_TOKENS, "temperature": TEMPERATURE},
        )
        write = TextGeneration(llm=llm, input_batch_size=told.concurrency)
        load >> write
        found = pipeline.run(use_cache=False)["default"]["train"]
        return sum(usable(text or "") for text in found["generation"])


if __name__ == "__main__":
    measured(work, "distilabel", ["distilabel.models.llms", "distilabel.pipeline", "distilabel.steps.tasks"])
