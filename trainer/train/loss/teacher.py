"""What a student learns of a teacher, a reranker that Foil trained, in addition to the contrastive loss.

    judged cells of a batch -> lists: a pair with the passages judged under it -> logits of the teacher and the student
    kl           sum over the list of softmax(teacher) x log(softmax(teacher) / softmax(student))
    margin_mse   mean over relevant and other passages of (difference by the student - difference by the teacher)^2

The student's logits are those of the contrastive loss. The loss is a weighted mean over lists: 1 under an instruction,
`retention.plain_weight` for a bare query. Price: one forward pass of the teacher for every judged cell of every step.
References: Hinton et al., arXiv 1503.02531; Hofstaetter et al., arXiv 2010.02666.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from foil.engine.errors import UsageError
from foil.trainer.model.checksums import check_model, ranks_pairs
from foil.trainer.model.pair_scorer import load_pair_scorer
from foil.trainer.settings import TeacherLoss, TrainSettings
from foil.trainer.text_templates import TextTemplate
from foil.trainer.train.data.collate import Batch


@dataclass(frozen=True, slots=True)
class TaughtList:
    """A pair of a batch with its judged passages: `passages` [n], which are `relevant`, the `teacher`'s logits."""

    weight: float
    pair: Tensor
    passages: Tensor
    relevant: Tensor
    teacher: Tensor


class Teacher:
    """The reranker that `loss.teacher` names. Raises UsageError where there is none that Foil trained."""

    def __init__(self, settings: TrainSettings) -> None:
        assert settings.loss.teacher
        folder = settings.loss.teacher.model
        facts = check_model(folder)
        if not ranks_pairs(facts):
            raise UsageError(f"the teacher {folder} is no reranker; train one with `train.reranker`")
        encode = settings.encode.model_copy(update={"max_tokens": facts["settings"]["encode"]["max_tokens"]})
        template = TextTemplate(**facts["template"])
        self._scorer = load_pair_scorer(folder, template, encode, settings.model.model_copy(update={"dropout": False}))
        self._plain_weight = settings.retention.plain_weight

    def lists(self, batch: Batch) -> list[TaughtList]:
        """The lists of a batch that have relevant passages and others, with weights that add up to 1."""
        rows = [list(cells) for _, cells in groupby(sorted(batch.judged.tolist()), key=lambda cell: cell[0])]
        rows = [cells for cells in rows if len({relevant for *_, relevant in cells}) == 2]
        if not rows:
            return []
        queries = self._scorer.texts.format_pairs(batch.pairs)
        scores = self._scorer.score(
            [(queries[pair], batch.passages[passage]) for cells in rows for pair, passage, _ in cells]
        )
        weights = [1.0 if batch.pairs[cells[0][0]][0] else self._plain_weight for cells in rows]
        lists, start = [], 0
        for cells, weight in zip(rows, weights, strict=True):
            pair, passages, relevant = torch.tensor(cells).T
            logits, start = scores[start : start + len(cells)], start + len(cells)
            lists.append(TaughtList(weight / (sum(weights) or 1.0), pair, passages, relevant > 0, logits))
        return lists


def teacher_loss(lists: Sequence[TaughtList], how: TeacherLoss, logits_of: Callable[[TaughtList], Tensor]) -> Tensor:
    """The weighted sum of the lists' losses, `logits_of` each [n] by the student."""
    losses = []
    for each in lists:
        student = logits_of(each)
        losses.append(each.weight * LOSSES[how](student, each.teacher.to(student), each.relevant.to(student.device)))
    return torch.stack(losses).sum() if losses else torch.zeros(())


def _kl(student: Tensor, teacher: Tensor, _: Tensor) -> Tensor:
    target = teacher.log_softmax(0)
    return (target.exp() * (target - student.log_softmax(0))).sum()


def _margin_mse(student: Tensor, teacher: Tensor, relevant: Tensor) -> Tensor:
    surplus = student - teacher
    return (surplus[relevant].unsqueeze(1) - surplus[~relevant].unsqueeze(0)).square().mean()


LOSSES: Mapping[TeacherLoss, Callable[[Tensor, Tensor, Tensor], Tensor]] = {"kl": _kl, "margin_mse": _margin_mse}
