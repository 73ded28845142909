"""`foil job`: the job of a run, as a YAML page again."""

from __future__ import annotations

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_data, print_json, say


def job(out: OutArgument, as_json: JsonOption = False) -> None:
    """Print the job that a run was made by, as YAML: what was set, with every --set in it. Keys are never in it."""
    from foil.cluster.job_page import job_yaml, read_job
    from foil.datasets_out.commits.log import CommitLog

    log = CommitLog(out)
    document, whole = read_job(log)
    if as_json:
        print_json({"job": {**document, "out": log.store.url}, "whole": whole})
    else:
        print_data(job_yaml(document, log.store.url))
    if not whole:
        say("this run kept no job.json: give each model its `url` or `endpoints` before you run it")
