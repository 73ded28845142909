"""`foil init`: five questions, and the job file that follows from the answers."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.terminal import is_interactive, lines_of_user, print_json, print_line, say
from foil.engine.errors import UsageError

_DATA = "Data: python_docs, msmarco, robust04, leetcode, metamath, or the path of a table or a folder of documents"
_MODEL = "Model: none, NAME@URL (key=VARIABLE price=0.15/0.60 judge=NAME), or vllm:MODEL on this machine"
_PAPER = "Paper: infir, promptriever, dual_view, infosearch, contrast, custom, or verifiable (by rules, no model)"
_BUDGET = "Budget: seeds, and usd or tokens: seeds=400 usd=5"
_OUT = "Out: where the run will be, a folder or s3://BUCKET/RUN"


@dataclass(frozen=True, slots=True)
class _Answers:
    """Whether a person answers, or the defaults stand."""

    defaults: bool

    def answer(
        self, option: str, words: str, option_value: str | None, default: str, read: Callable[[str], Any]
    ) -> Any:
        """What `read` makes of the option, of the default, or of what a person types until it is accepted."""
        if option_value is not None or self.defaults:
            try:
                return read(default if option_value is None else option_value)
            except UsageError as error:
                raise UsageError(f"{option}: {error}") from None
        if not is_interactive():
            raise UsageError(f"{option} is not given, and nobody can be asked; give it, or --yes for the defaults")
        say(words)
        for line in lines_of_user(f"  {option.removeprefix('--')} [{default}]: "):
            try:
                return read(line.strip() or default)
            except UsageError as error:
                say(f"  {error}")
        raise UsageError("no answer; nothing is written")


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The job file to write.")] = Path("job.yaml"),
    data: Annotated[str | None, typer.Option(help=_DATA)] = None,
    model: Annotated[str | None, typer.Option(help=_MODEL)] = None,
    paper: Annotated[str | None, typer.Option(help=_PAPER)] = None,
    budget: Annotated[str | None, typer.Option(help=_BUDGET)] = None,
    out: Annotated[str | None, typer.Option(help=_OUT)] = None,
    ask: Annotated[bool, typer.Option("--ask", help="The model's URL must answer now; that costs nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="The defaults for what is not given; nothing is asked.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a job file from five answers: data, model, paper, budget, out. Each is asked, or given as an option.

    Nothing is overwritten. Words with `=` are settings: --data 'questions.jsonl query=q positives=a',
    --model 'NAME@https://HOST/v1 key=VARIABLE price=0.15/0.60 judge=NAME', --budget 'seeds=400 usd=5'.
    """
    from foil.cluster.first_job import answers
    from foil.cluster.first_job.data import read_data

    if file.exists():
        raise UsageError(f"{file} is there already and nothing is overwritten; name another file")
    templates = file.with_name(f"{file.stem}_templates")
    asking = _Answers(yes)
    seeds = asking.answer("--data", _DATA, data, "python_docs", read_data)
    read_model = partial(answers.read_model, documents=seeds["kind"] == "documents", ask=ask)
    models = asking.answer("--model", _MODEL, model, "none", read_model)
    read_paper = partial(answers.read_paper, seeds=seeds, models=models, templates=templates)
    recipe_and_checks = asking.answer("--paper", _PAPER, paper, "infir" if models else "verifiable", read_paper)
    read_budget = partial(answers.read_budget, models=models)
    limits = asking.answer("--budget", _BUDGET, budget, answers.usual_budget(models), read_budget)
    place = asking.answer("--out", _OUT, out, f"out/{file.stem}", answers.read_out)
    job = {"seeds": seeds, **recipe_and_checks, "models": models, "out": place, "limits": limits}
    _write(file, job, templates)
    commands = [f"foil {name} {shlex.quote(str(file))}" for name in ("doctor", "try", "run")]
    keys = [f"export {name}=..." for name in answers.unset_keys(models)]
    if as_json:
        print_json({"job": str(file), "unset_keys": answers.unset_keys(models), "next": commands})
    else:
        print_line("\n".join((f"{file} is written; next:", *(f"    {line}" for line in (*keys, *commands)))))


def _write(file: Path, job: dict[str, Any], templates: Path) -> None:
    """Writes the job, and the templates of a recipe of one's own, once the job is known to be accepted."""
    from foil.cluster.first_job.answers import CUSTOM_TEMPLATE, job_page
    from foil.cluster.job import job_of
    from foil.cluster.yaml_page import read_yaml

    file.parent.mkdir(parents=True, exist_ok=True)
    if "templates" in job["recipe"]:
        templates.mkdir()
        (templates / CUSTOM_TEMPLATE.name).write_bytes(CUSTOM_TEMPLATE.read_bytes())
    text = job_page(job, shlex.quote(str(file)))
    job_of(read_yaml(text, str(file))[0])
    with file.open("x", encoding="utf-8") as page:
        page.write(text)
