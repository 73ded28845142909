"""`foil verify`: reads every committed byte of a run, or every file of a release, again."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.extras import need
from foil.cluster.terminal import print_json, say
from foil.engine.errors import CorruptDataError, IncompleteRunError, UsageError
from foil.engine.storage.opening import mirror_of


def verify(
    out: Annotated[Path, typer.Argument(parser=mirror_of, metavar="OUT", help="A run, or the folder of a release.")],
    key: Annotated[Path | None, typer.Option(help="Of a release: the public key that must have signed it.")] = None,
    share: Annotated[
        float, typer.Option("--sample", min=0.0, max=1.0, help="Of a run: the share of the files with rows to read.")
    ] = 1.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Of a run: skip the files that a verification before found whole.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every committed byte and each record in the journal, or checksums and signature of a release.

    Exit code 6 if there is damage, 11 if rows are to come. Records that were cut off at the end of a journal are not
    missed: a kill leaves the same. A large run can be sampled; documents, entries and journal
    are always read.
    """
    from foil.datasets_out.release.checksums import CHECKSUMS

    if (out / CHECKSUMS).exists() and not (out / "run.json").exists():
        _verify_release(out, key, as_json=as_json)
    elif key:
        raise UsageError(f"{out} is no release, and only a release is signed; leave out --key")
    else:
        _verify_run(out, share, resume=resume, as_json=as_json)


def _verify_release(folder: Path, key: Path | None, *, as_json: bool) -> None:
    from foil.datasets_out.release.checksums import SIGNATURE, check_release, check_signature

    problems = check_release(folder)
    if (folder / SIGNATURE).exists():
        need("cryptography", extra="cloud")
    signed_by = check_signature(folder, key)
    if as_json:
        print_json({"damaged": len(problems), "found": problems, "signed_by": signed_by})
    for problem in problems:
        say(f"DAMAGED  {problem}")
    if problems:
        raise CorruptDataError(f"{folder} has {len(problems)} files that are not as released; get it again")
    signature = f"signed by the key {signed_by}" if signed_by else "not signed"
    trust = "" if key or not signed_by else "; --key FILE demands a key that you trust"
    say(f"{folder} holds what was released, to the bit; {signature}{trust}")


def _verify_run(out: Path, share: float, *, resume: bool, as_json: bool) -> None:
    from foil.datasets_out.commits.log import CommitLog
    from foil.datasets_out.commits.verify import verify as find_damage

    if not (log := CommitLog(out)).partitions():
        log.run()  # or there is none
    findings = find_damage(out, share=share, resume=resume)
    damaged = sum(not finding.harmless for finding in findings)
    if as_json:
        print_json({"damaged": damaged, "found": [asdict(finding) for finding in findings]})
    for finding in findings:
        say(f"{'harmless' if finding.harmless else 'DAMAGED'}  {finding.kind}  {finding.path}: {finding.detail}")
    if damaged:
        raise CorruptDataError(
            f"{log.store.url} has {damaged} damaged files; restore them, or run the job into a new folder"
        )
    for finding in findings:
        if finding.kind == "incomplete":
            raise IncompleteRunError(f"{log.store.url} is incomplete: {finding.detail}")
    read = "" if share >= 1 else f", as far as {share:.0%} of its files tell"
    say(f"{log.store.url} holds what was committed, to the bit{read}")
