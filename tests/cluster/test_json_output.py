"""`--json` of every command: one document and nothing else on stdout."""

from foil.cluster.commands.app import BENCHMARKS_COMMANDS, COMMANDS, SEEDS_COMMANDS

EVERY = {
    **COMMANDS,
    **{f"seeds {name}": command for name, command in SEEDS_COMMANDS.items()},
    **{f"benchmarks {name}": command for name, command in BENCHMARKS_COMMANDS.items()},
}
WITHOUT = {"view", "label", "logs"}
"""These open a page, ask a person, or pass on what another program printed."""
ELSEWHERE = {
    "submit": "cluster/commands/test_ray_jobs.py", "cancel": "cluster/commands/test_ray_jobs.py",
    "benchmarks fetch": "cluster/benchmarks/test_fetching.py",
    "benchmarks review": "cluster/benchmarks/test_review.py",
    "benchmarks annotate": "cluster/benchmarks/test_annotating.py",
    "benchmarks respond": "cluster/benchmarks/test_ifeval.py",
}  # fmt: skip
"""Those that need a cluster, a hub or a sheet that a person filled, and who asks them for JSON."""
WAYS = {  # what follows the command; several ways are divided by a bar
    "init": "{new}.yaml --data table --path {questions} --paper verifiable --yes",
    "run": "{job} --out {new}",
    "try": "{job} --seeds 3 --out {new}",
    "plan": "{job}",
    "job": "{ran}",
    "watch": "{ran} --once",
    "status": "{ran}",
    "show": "{ran} --sample 1",
    "sql": "{ran} 'SELECT count(*) AS n FROM topics'",
    "why": "{ran} s1",
    "diff": "{sample} {ran}",
    "report": "{ran} --into {new}.html",
    "audit": "{ran} --sheet {new}",
    "agreement": "{ran}",
    "calibrate": "{judged} --on {labels} --replies {new}",
    "verify": "{ran}",
    "snapshot": "create {sample} one | list {ran} | diff {sample} one",
    "filter": "{ran} {new} --where 'true'",
    "drop": "{ran} {new} {topic} --reason doubtful",
    "accept": "{sample} {new} --where \"reason = 'no_negative'\" --reason fine",
    "revalidate": "{ran} {new} --job {job}",
    "relabel": "{set} {new} --job {judge}",
    "merge": "{ran} {sample} {new}",
    "mix": "{dual} {new}",
    "mine": "{world} {new} --set miner=bm25",
    "compact": "{ran}",
    "gc": "{ran} --dry-run",
    "export": "{ran} --format jsonl --into {release}",
    "restore": "{release} --seeds {job} --into {new}",
    "push": "{release} org/set",
    "train": "{training}",
    "average": "{bert} {bert} {new}",
    "evaluate": "{training} | {bert} --on trec:{trec} --out {new} | "
                "{bert} --on beir:{trec} --out {new} --prompts {prompts} --prompt-queries 1",
    "ablate": "{ablation}",
    "doctor": "--out {new}",
    "seeds preview": "{job}",
    "seeds fetch": "",
    "benchmarks list": "",
    "benchmarks show": "beir",
    "benchmarks make": "{world} --into {new}",
}  # fmt: skip
SLOW = {"train", "average", "evaluate", "ablate", "benchmarks make"}
