"""What an accepted topic of each recipe costs with a hosted writer and judge, planned before anything is asked.

For each recipe the job runs once with the rule writer as writer and as judge, which says how many of its seeds end
accepted; then `foil plan` renders the same seeds' prompts for a hosted model and counts calls and tokens. The lengths
of replies are those of the rule writer's, so take completions as an estimate; `foil plan JOB --sample 20` measures them
on the model itself. Nothing is sent.

    .venv/bin/python -m benchmarks.costs [--seeds 200] [--path ROWS] [--price-prompt 0.15] [--price-completion 0.6]
        [--prompt-tokens-per-s 20000] [--completion-tokens-per-s 2500] [--quick] [--json]

`--path` names MS MARCO rows; without it the seeds are python_docs. Prices are US dollars a million tokens.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
RECIPES = {
    "infir": ("{kind: infir}", "judge_scenarios"),
    "promptriever": ("{kind: promptriever}", "judge_relevance"),
    "dual_view": ("{kind: dual_view, base: {kind: promptriever}}", "judge_polarity"),
    "infosearch": ("{kind: infosearch, dimensions: [keyword, length]}", "judge_relevance"),
    "verifiable": ("{kind: verifiable}", ""),
}
PUBLISHED = {"InF-IR": 38_759, "Promptriever": 490_000}
"""Rows of the published sets (InF-IR table 1; Promptriever table 6)."""


def job(recipe: str, judge: str, model: str, told: argparse.Namespace, out: Path) -> str:
    seeds = f"{{kind: msmarco, path: {told.path.resolve()}}}" if told.path else "{kind: python_docs}"
    roles = f"writer: {model}" + (f", judge: {model}" if judge else "")
    kinds = ["shape", "leak", "constraint_check", "duplicates", *([judge] if judge else [])]
    chain = ", ".join(f"{{kind: {kind}}}" for kind in kinds)
    return (
        f"seeds: {seeds}\nrecipe: {recipe}\nmodels: {{{roles}}}\nvalidators: [{chain}]\n"
        f"out: {out}\nlimits: {{seeds: {told.seeds}}}\n"
    )


def foil(verb: str, text: str, folder: Path, *options: str) -> dict[str, Any]:
    path = folder / f"{verb}.yaml"
    path.write_text(text)
    command = [sys.executable, "-m", "cluster", verb, str(path), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, told: argparse.Namespace) -> dict[str, float]:
    recipe, judge = RECIPES[name]
    price = f"{{prompt: {told.price_prompt}, completion: {told.price_completion}}}"
    hosted = f"{{kind: hosted, model: m, url: 'http://127.0.0.1:9/v1', price: {price}}}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ran = foil("run", job(recipe, judge, "{kind: rule_writer}", told, folder / "run"), folder)
        planned = foil("plan", job(recipe, judge, hosted, told, folder / "plan"), folder, "--seeds", str(told.seeds))
    stages, accepted = planned["stages"], ran["accepted"]
    found = {
        key: sum(one[key][1] for one in stages) / accepted
        for key in ("calls", "prompt_tokens", "completion_tokens", "usd")
    }
    hours = (
        found["prompt_tokens"] / told.prompt_tokens_per_s + found["completion_tokens"] / told.completion_tokens_per_s
    )
    return {"seeds": ran["planned"], "accepted_share": accepted / ran["planned"], **found, "gpu_hours": hours / 3600}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--path", type=Path)
    parser.add_argument("--price-prompt", type=float, default=0.15)
    parser.add_argument("--price-completion", type=float, default=0.6)
    parser.add_argument("--prompt-tokens-per-s", type=float, default=20_000)
    parser.add_argument("--completion-tokens-per-s", type=float, default=2_500)
    parser.add_argument("--quick", action="store_true", help="30 seeds")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    told = parser.parse_args()
    told.seeds = 30 if told.quick else told.seeds
    found = {name: measure(name, told) for name in RECIPES}
    totals = "".join(f"{f'{name} size: USD, GPU h':>28}" for name in PUBLISHED)
    print(f"{'recipe':14}{'accepted':>9}{'calls':>7}{'prompt':>8}{'compl.':>8}{'USD':>10}{'GPU s':>8}{totals}")
    for name, one in found.items():
        sizes = "".join(f"{n * one['usd']:>18,.0f}{n * one['gpu_hours']:>10,.0f}" for n in PUBLISHED.values())
        print(
            f"{name:14}{one['accepted_share']:>9.0%}{one['calls']:>7.1f}{one['prompt_tokens']:>8,.0f}"
            f"{one['completion_tokens']:>8,.0f}{one['usd']:>10.5f}{one['gpu_hours'] * 3600:>8.2f}{sizes}"
        )
    print("accepted: share of seeds; the rest a topic that was accepted, what was rejected paid for too")
    if told.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
