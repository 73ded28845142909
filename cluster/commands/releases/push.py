"""`foil push`: sends a release or a model to a hub or a bucket. `foil restore`: brings its withheld texts back."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from foil.cluster.commands.arguments import JsonOption
from foil.cluster.extras import need
from foil.cluster.terminal import print_json, say
from foil.engine.errors import IncompleteRunError, UsageError

if TYPE_CHECKING:
    from foil.datasets_out.release.pushing import PushedFiles
    from foil.datasets_out.release.targets.target import PushTarget, ReleaseFile

FACTS = "foil.json"
"""What a model's folder has and a release's has not."""

ReleaseArgument = Annotated[Path, typer.Argument(help="The folder of a release, as `foil export` wrote it.")]


def push(
    folder: Annotated[Path, typer.Argument(help="A release, as `foil export` wrote it, or a model: OUT/model.")],
    target: Annotated[str, typer.Argument(help="A data set or model of the hub, ORG/NAME, or s3://BUCKET/PREFIX.")],
    public: Annotated[bool, typer.Option("--public", help="Make what is new on the hub public.")] = False,
    allow: Annotated[
        bool, typer.Option("--allow-nonredistributable", help="Send texts that may not be passed on.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a release or a model to a Hugging Face hub or an S3 bucket. An interrupted push goes on where it ended.

    The hub is that of HF_ENDPOINT and HF_TOKEN, the bucket that of AWS_ENDPOINT_URL and AWS's keys.
    """
    from foil.datasets_out.release import pushing
    from foil.datasets_out.release.targets.bucket import S3Prefix
    from foil.datasets_out.release.targets.hub import HubRepository

    is_model = (folder / FACTS).is_file()
    open_target: Callable[[], PushTarget]
    if target.startswith("s3://"):
        need("obstore", extra="cloud")
        open_target = partial(S3Prefix, target)
    elif target.count("/") == 1 and ":" not in target:
        need("huggingface_hub", extra="cloud")
        open_target = partial(HubRepository, target, public=public, kind="model" if is_model else "dataset")
    else:
        raise UsageError(f"{target!r} is no target; give ORG/NAME of a data set or model, or s3://BUCKET/PREFIX")
    if is_model:
        pushed = _push_model(folder, open_target)
    else:
        pushed = pushing.push(folder, open_target, allow_nonredistributable=allow)
    if as_json:
        print_json({"target": target, **asdict(pushed)})
        return
    say(f"{target} has all of {folder}: {pushed.sent:,} files sent ({pushed.bytes_sent / 1e6:.1f} MB), "
        f"{pushed.present:,} were there")  # fmt: skip


def _push_model(folder: Path, open_target: "Callable[[], PushTarget]") -> "PushedFiles":
    from foil.datasets_out.release.pushing import push_files

    with TemporaryDirectory() as draft:
        return push_files(_model_files(folder, Path(draft)), open_target, last=("README.md", FACTS))


def _model_files(folder: Path, draft: Path) -> "list[ReleaseFile]":
    """The files of a published model, its card, drawings and exports; what else lies there stays here.

    Its foil.json is written to `draft` without folders of this machine. Raises CorruptDataError where a file of the
    model is not as it was published.
    """
    from foil.datasets_out.release.targets.target import ReleaseFile
    from foil.engine.atomic_files import write_json
    from foil.trainer.model.card import DRAWINGS, public_facts
    from foil.trainer.model.checksums import CARD, EXPORTS, check_model, digest_of, digests_of, sealed

    facts = check_model(folder)
    write_json(draft / FACTS, sealed(public_facts(facts)))
    own_names = {*facts["files"], CARD, *DRAWINGS}
    digests = digests_of(folder)
    own = [name for name in digests if name in own_names or name.startswith(EXPORTS)]
    if strange := sorted(digests.keys() - {*own, FACTS}):
        say(f"not of the model, and not sent: {', '.join(strange[:5])}{' ...' if len(strange) > 5 else ''}")
    paths = {**{name: folder / name for name in own}, FACTS: draft / FACTS}
    return [ReleaseFile(name, path, path.stat().st_size, digest_of(path)) for name, path in paths.items()]


def restore(
    folder: ReleaseArgument,
    seeds: Annotated[Path, typer.Option(help="The job of the run, or a page that is its `seeds` section.")],
    into: Annotated[Path | None, typer.Option(help="A folder for it. Default: in the place of the release.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Bring back the texts that a release withholds, from their corpus; each is checked by its sha256.

    Exit code 11 if some are not in that corpus; their rows stay withheld.
    """
    from foil.cluster.releases.ordering import seeds_of
    from foil.datasets_out.release.restoring import restore as restore_release

    restored = restore_release(folder, seeds_of(seeds), into)
    place = into or folder
    if as_json:
        print_json(
            {"into": str(place), "found": restored.found, "missing": restored.missing, "digest": restored.digest}
        )
    say(f"{restored.found:,} texts came back; {place} holds them, and may not be passed on")
    if restored.missing:
        rows = sum(file.withheld for file in restored.files)
        raise IncompleteRunError(
            f"{restored.missing:,} texts are not in the corpus of {seeds}, and {rows:,} rows stay withheld; give the "
            "corpus that the run read"
        )
