"""`foil benchmarks respond`: a model answers IFEval's prompts, for `foil benchmarks make ifeval:FOLDER`."""

import re
from collections.abc import Sequence
from pathlib import Path

from foil.cluster.benchmarks.sources import prompts_of_sub_tasks
from foil.cluster.evaluations.benchmarks import DEFAULT_OUT
from foil.cluster.job import settings_from
from foil.cluster.terminal import print_json, say, show
from foil.engine.atomic_files import put_json_lines
from foil.engine.errors import UsageError
from foil.trainer.evaluate.benchmarks.making.ifeval import KIND, RespondingSettings, is_enough, respond
from foil.trainer.evaluate.systems.llm_replies import LlmReplies, hosted_settings


def draw_responses(source: str, model: str, overrides: Sequence[str], replies: Path | None, *, as_json: bool) -> None:
    """Writes FOLDER/responses_MODEL.jsonl. Replies are kept: a command that was stopped pays only for what is left."""
    kind, _, place = source.partition(":")
    if kind != KIND or not place:
        raise UsageError(f"{source!r} is not {KIND}:FOLDER[#SUBTASK]; name the folder of IFEval's input_data.jsonl so")
    folder, _, only = place.partition("#")
    settings = settings_from(overrides, RespondingSettings)
    hosted = hosted_settings("", model, settings)
    name = re.sub(r"[^\w.-]+", "-", f"{hosted.model} {only}".strip())
    path = Path(folder) / f"responses_{name}.jsonl"
    if path.exists():
        raise UsageError(f"{path} exists; remove it to draw anew, or go on with foil benchmarks make {source}")
    prompts = [prompt for prompts in prompts_of_sub_tasks(folder, only).values() for prompt in prompts]
    asker = LlmReplies(hosted, replies or DEFAULT_OUT / "replies")
    draws = asker.run(lambda ask: respond(prompts, settings, ask, hosted.model))
    pairs = zip(prompts, draws, strict=True)
    rows = [{"prompt": prompt.prompt, "response": text} for prompt, texts in pairs for text in texts]
    put_json_lines(path, rows)
    counts = {"prompts": len(prompts), "responses": len(rows), "following": sum(sum(texts.values()) for texts in draws),
              "short": sum(not is_enough(texts, settings) for texts in draws), "requests": asker.sent}  # fmt: skip
    if as_json:
        print_json(counts)
        return
    show([*counts], [[*counts.values()]], f"responses in {path}")
    say(f"make the sub-tasks: foil benchmarks make {source} --into FOLDER")
