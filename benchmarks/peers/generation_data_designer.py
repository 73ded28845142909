"""NeMo Data Designer on the prompts of benchmarks/generation.py, one text column; runs in an environment that has it.

`max_parallel_requests` is the concurrency asked for; all else is as it comes.
"""

from __future__ import annotations

import argparse
import os
import tempfile

from generation_prompts import MAX_TOKENS, MODEL, SYSTEM, TEMPERATURE, measured, offline_tokens, usable, user

os.environ["NEMO_TELEMETRY_ENABLED"] = "false"


def work(told: argparse.Namespace) -> int:
    import data_designer.config as dd
    import pandas as pd
    from data_designer.interface import DataDesigner

    offline_tokens()
    provider = dd.ModelProvider(name="local", endpoint=told.base_url, provider_type="openai", api_key="none")
    params = dd.ChatCompletionInferenceParams(
        temperature=TEMPERATURE, max_tokens=MAX_TOKENS, max_parallel_requests=told.concurrency
    )
    model = dd.ModelConfig(alias="writer", model=MODEL, provider="local", inference_parameters=params)
    seeds = pd.DataFrame({"task": [user(i) for i in range(told.requests)]})
    builder = dd.DataDesignerConfigBuilder(model_configs=[model])
    builder.with_seed_dataset(dd.DataFrameSeedSource(df=seeds))
    builder.add_column(
        dd.LLMTextColumnConfig(name="answer", prompt="{{ task }}", system_prompt=SYSTEM, model_alias="writer")
    )
    with tempfile.TemporaryDirectory() as folder:
        designer = DataDesigner(artifact_path=folder, model_providers=[provider])
        found = designer.create(builder, num_records=told.requests).load_dataset()
    return sum(map(usable, found["answer"]))


if __name__ == "__main__":
    measured(work, "data-designer", ["data_designer.config", "data_designer.interface", "pandas"])
