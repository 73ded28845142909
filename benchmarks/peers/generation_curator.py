"""Bespoke curator on the prompts of benchmarks/generation.py; runs in an environment that has it.

Its rate limits are set out of the way and `max_concurrent_requests` is the concurrency asked for; all else is as it
comes, but for its cache, which is made anew, and its reports to its makers, which are off.
"""

from __future__ import annotations

import argparse
import os
import tempfile

from generation_prompts import MAX_TOKENS, MODEL, SYSTEM, TEMPERATURE, measured, offline_tokens, usable, user

os.environ |= {"TELEMETRY_ENABLED": "false", "CURATOR_VIEWER": "0", "CURATOR_DISABLE_RICH_DISPLAY": "1"}
os.environ |= {"OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def work(told: argparse.Namespace) -> int:
    from bespokelabs import curator

    offline_tokens()

    class Writer(curator.LLM):
        """One prompt a row."""

        def prompt(self, row: dict[str, str]) -> str:
            return row["task"]

        def parse(self, row: dict[str, str], answer: str) -> dict[str, str]:
            return {"task": row["task"], "answer": answer}

    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(
            model_name=MODEL,
            backend="openai",
            system_prompt=SYSTEM,
            generation_params={"max_tokens": MAX_TOKENS, "temperature": TEMPERATURE},
            backend_params={
                "base_url": told.base_url,
                "max_requests_per_minute": 10_000_000,
                "max_tokens_per_minute": 10_000_000_000,
                "max_concurrent_requests": told.concurrency,
                "require_all_responses": False,
            },
        )
        rows = [{"task": user(i)} for i in range(told.requests)]
        found = writer(rows, working_dir=folder).dataset
        return sum(map(usable, found["answer"]))


if __name__ == "__main__":
    measured(work, "curator", ["bespokelabs.curator"])
