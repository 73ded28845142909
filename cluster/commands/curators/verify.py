"""`foil verify`: reads every committed byte again."""

from dataclasses import asdict

from cluster.commands.arguments import JsonOption, OutArgument
from cluster.terminal import print_json, say
from engine.errors import CorruptDataError, IncompleteRunError


def verify(out: OutArgument, as_json: JsonOption = False) -> None:
    """Check every committed byte and every journalled reply. Exit code 6 if there is damage, 11 if rows are to come."""
    from datasets_out.commits.log import CommitLog
    from datasets_out.commits.verify import verify as find_damage

    if not (log := CommitLog(out)).partitions():
        log.run()  # or there is none
    findings = find_damage(out)
    damaged = sum(not finding.harmless for finding in findings)
    if as_json:
        print_json({"damaged": damaged, "found": [asdict(finding) for finding in findings]})
    for finding in findings:
        say(f"{'harmless' if finding.harmless else 'DAMAGED'}  {finding.kind}  {finding.path}: {finding.detail}")
    if damaged:
        raise CorruptDataError(f"{out} has {damaged} damaged files; restore them, or run the job into a new folder")
    for finding in findings:
        if finding.kind == "incomplete":
            raise IncompleteRunError(f"{out} is incomplete: {finding.detail}")
    say(f"{out} holds what was committed, to the bit")
