"""IFEval's prompts and models' responses as eight sub-tasks: find the responses that follow the instructions.

    FOLDER/input_data.jsonl          {key, prompt, instruction_id_list, kwargs}, as released
    FOLDER/*response*.jsonl          {prompt, response}, as its evaluation takes them; several models, several of each

MAIR (arXiv 2410.10127, section 5.4): 100 candidates a query, of which 10 follow all of its instructions. A prompt is of
the sub-task that all its instructions belong to; those of several, or that ask for a language, belong to none. The
query is the prompt, which holds its instructions; where a row of input_data has `query` and `instruction`, these are
taken instead. Candidates are judged by `ifeval_checks`, and each query ranks its own.

A model's own responses, as many as MAIR's sub-tasks take (MAIR drew from gpt-3.5-turbo until it had 100):

    prompt -> choices of one request after another -> until `followers` follow all of its instructions and
              `candidates` less these do not, or `most` are drawn

A response that was cut, or is empty, is none.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from foil.engine.errors import UsageError
from foil.engine.ids import fraction_of
from foil.engine.requests import Message, Reply, Request, ending_of
from foil.engine.seeds.files.rows import SourceRow, read_rows
from foil.trainer.evaluate.benchmarks.benchmark import Benchmark, EvaluationQuery
from foil.trainer.evaluate.benchmarks.files import MOST_BYTES, good, present, rows
from foil.trainer.evaluate.benchmarks.making.ifeval_checks import CHECKS, follows_all
from foil.trainer.evaluate.benchmarks.making.settings import MakingSettings
from foil.trainer.evaluate.systems.llm_replies import Ask
from foil.trainer.evaluate.systems.system import SystemSettings

SUB_TASKS = tuple(dict.fromkeys(name.partition(":")[0] for name in CHECKS))
KIND = "ifeval"


class VerifiablePrompt(NamedTuple):
    """One prompt with its instructions, and what is asked of a retriever."""

    key: str
    prompt: str
    query: str
    instruction: str
    ids: tuple[str, ...]
    arguments: tuple[Mapping[str, Any], ...]


def sub_task_of(ids: Iterable[str]) -> str:
    """The sub-task that all instructions belong to, or "".

    >>> sub_task_of(["keywords:existence", "keywords:frequency"]), sub_task_of(["startend:quotation", "language:x"])
    ('keywords', '')
    """
    groups = {name.partition(":")[0] for name in ids}
    return groups.pop() if len(groups) == 1 and groups <= set(SUB_TASKS) else ""


def read_prompts(folder: Path) -> list[VerifiablePrompt]:
    """The prompts in their order. Raises SeedFormatError with file and line."""
    return [_prompt(row) for row in rows(folder, "input_data")]


def _prompt(row: SourceRow) -> VerifiablePrompt:
    ids, arguments = row.items("instruction_id_list"), row.items("kwargs")
    if not all(isinstance(name, str) for name in ids) or len(ids) != len(arguments) or not ids:
        raise row.format_error("as many kwargs as instruction ids", f"{len(ids)} ids, {len(arguments)} kwargs")
    options = tuple(row.nested(each, "a mapping under 'kwargs'").value for each in arguments)
    prompt = row.text("prompt")
    has_own = "query" in row.value
    query, instruction = (row.text("query"), present(row, "instruction")) if has_own else (prompt, "")
    return VerifiablePrompt(row.name("key"), prompt, query, instruction, tuple(ids), options)


def read_responses(folder: Path) -> dict[str, list[str]]:
    """Prompt -> its different responses, of all files. Raises UsageError where there is no file of them."""
    files = sorted(folder.glob("*response*.jsonl"))
    if not files:
        raise UsageError(f"no file *response*.jsonl in {folder}; bring models' responses to IFEval's prompts, rows of "
                         "{prompt, response}, or draw them: foil benchmarks respond")  # fmt: skip
    by_prompt: dict[str, dict[str, None]] = {}
    for row in (row for path in files for row in good(read_rows(path, MOST_BYTES))):
        if response := present(row, "response"):
            by_prompt.setdefault(row.text("prompt"), {})[response] = None
    return {prompt: list(responses) for prompt, responses in by_prompt.items()}


def sub_task(
    name: str, prompts: Iterable[VerifiablePrompt], responses: Mapping[str, list[str]], settings: MakingSettings
) -> tuple[Benchmark, dict[str, int]]:
    """One sub-task; how many of its prompts lack a response of one of the two kinds, and how many some candidates."""
    documents: dict[str, tuple[str, str]] = {}
    queries: list[EvaluationQuery] = []
    qrels: dict[str, dict[str, int]] = {}
    counts = {"without_contrast": 0, "short": 0}
    for prompt in prompts:
        chosen = _candidates(prompt, responses.get(prompt.prompt, []), settings)
        if len(set(chosen.values())) < 2:
            counts["without_contrast"] += 1
            continue
        counts["short"] += len(chosen) < settings.candidates
        texts = {f"{prompt.key}-{place}": text for place, text in enumerate(chosen)}
        documents |= {document: ("", text) for document, text in texts.items()}
        queries.append(EvaluationQuery(prompt.key, prompt.query, prompt.instruction, prompt.key, "instructed", name,
                                       "Web"))  # fmt: skip
        qrels[prompt.key] = {document: int(chosen[text]) for document, text in texts.items()}
    lists = {query: tuple(grades) for query, grades in qrels.items()}
    return Benchmark(f"{KIND}/{name}", "", documents, tuple(queries), qrels, lists), counts


def _candidates(prompt: VerifiablePrompt, responses: Iterable[str], settings: MakingSettings) -> dict[str, bool]:
    """The chosen responses, in an order by hash, with whether they follow all instructions."""
    in_order = sorted(responses, key=lambda text: fraction_of(KIND, str(settings.seed), prompt.key, text))
    followed = {text: follows_all(text, prompt.ids, prompt.arguments) for text in in_order}
    followers = [text for text in in_order if followed[text]][: settings.followers]
    failures = [text for text in in_order if not followed[text]][: max(0, settings.candidates - len(followers))]
    chosen = {*followers, *failures}
    return {text: followed[text] for text in in_order if text in chosen}


class RespondingSettings(SystemSettings):
    """How many responses a model gives to each prompt, and how it draws them."""

    candidates: int = Field(100, ge=2, le=10_000, description="responses wanted of a prompt")
    followers: int = Field(10, ge=1, le=10_000, description="of these that follow all of its instructions")
    most: int = Field(300, ge=1, le=100_000, description="responses drawn of a prompt, whatever they follow")
    choices: int = Field(10, ge=1, le=1_000, description="responses that one request asks for (`n`)")
    temperature: float = Field(1.0, ge=0, le=100, description="of the draws")
    max_tokens: int = Field(1_024, ge=1, le=10**6, description="of a response; one that is cut is left out")


async def respond(
    prompts: Sequence[VerifiablePrompt], settings: RespondingSettings, ask: Ask, model: str
) -> list[dict[str, bool]]:
    """For each prompt its different responses in the order drawn, with whether they follow all instructions."""

    async def draw(prompt: VerifiablePrompt) -> dict[str, bool]:
        responses: dict[str, bool] = {}
        for number in range(-(-settings.most // settings.choices)):
            if is_enough(responses, settings):
                break
            reply = await ask(_request(prompt, settings, model, number))
            for text in _whole(reply):
                responses[text] = follows_all(text, prompt.ids, prompt.arguments)
        return responses

    return list(await asyncio.gather(*map(draw, prompts)))


def is_enough(responses: dict[str, bool], settings: RespondingSettings) -> bool:
    """Whether a query can have all the candidates of both kinds that are wanted."""
    following = sum(responses.values())
    return following >= settings.followers and len(responses) - following >= settings.candidates - settings.followers


def _request(prompt: VerifiablePrompt, settings: RespondingSettings, model: str, number: int) -> Request:
    """The request number `number` of a prompt; its seed sets it apart from the others."""
    params = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "n": settings.choices,
              "seed": number}  # fmt: skip
    return Request(model, (Message("user", prompt.prompt),), params)


def _whole(reply: Reply) -> list[str]:
    choices = [(reply.text, reply.finish_reason), *reply.others]
    return [text for text, reason in choices if text.strip() and ending_of(reason) == "whole"]
