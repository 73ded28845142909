"""`foil status`: where a run stands, from its commit entries alone."""

from collections import Counter
from typing import Any

from foil.cluster.commands.arguments import JsonOption, OutArgument
from foil.cluster.terminal import print_json, print_line, show
from foil.engine.seeds.files.ledger import ledger_lines


def status(out: OutArgument, as_json: JsonOption = False) -> None:
    """How far a run is: planned, accepted, rejected, failed, calls, tokens, cost. Reads commit entries only."""
    from foil.cluster.pages.reason_lines import print_commonest
    from foil.datasets_out.commits.log import CommitLog
    from foil.engine.flow import progress

    log = CommitLog(out)
    log.run()
    facts = progress.status(log, out)
    if as_json:
        print_json(facts)
        return
    left_out = ("last_session", "read", "reasons", "validators_usd")
    rows = [(name, _plain(value)) for name, value in facts.items() if name not in left_out and value != ""]
    show(["", ""], rows)
    for line in ledger_lines(facts["read"]):
        print_line(line)
    print_commonest(out, Counter(facts["reasons"]), sum(facts["topics"].values()), examples=False)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:,}" for name, count in value.items())
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
