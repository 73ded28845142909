"""What a student learns of a teacher, in addition to the contrastive loss: a reranker that Foil trained, or a judge.

    judged cells of a batch -> lists: a pair, the passages judged under it -> logits t of the teacher, s of the student
    kl           sum over the list of q x log(q / softmax(s)), where q = softmax(t)
    margin_mse   mean over relevant passages i and others j of ((s_i - s_j) - (t_i - t_j))^2

Of a reranker t is its score. Of a judge t = log(p / (1 - p)), where p is P(relevant) by `judge_demands`, from 0.01 to
0.99; then q is p / (1 - p) over its sum in the list. A list has the cells that the judge scored. Where it scored no
relevant passage, or none that is not, there is no list, and the labels alone teach.

s is the logit of the contrastive loss. The loss is a weighted mean over lists: 1 under an instruction,
`retention.plain_weight` for a bare query. Price: one forward pass of a reranker for every judged cell of every step;
of a judge nothing. References: the soft targets of Hinton et al., arXiv 1503.02531, section 2, at temperature 1;
Margin-MSE of Hofstaetter et al., arXiv 2010.02666.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from foil.datasets_out.training.judge_scores import JUDGE, log_odds
from foil.datasets_out.training.training_view import TrainingView
from foil.engine.errors import UsageError
from foil.trainer.model.checksums import check_model, ranks_pairs
from foil.trainer.model.pair_scorer import PairScorer, load_pair_scorer
from foil.trainer.settings import TeacherLoss, TrainSettings
from foil.trainer.text_templates import TextTemplate
from foil.trainer.train.data.collate import Batch

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaughtList:
    """A pair of a batch with its judged passages: `passages` [n], which are `relevant`, the `teacher`'s logits."""

    weight: float
    pair: Tensor
    passages: Tensor
    relevant: Tensor
    teacher: Tensor


class Teacher:
    """The reranker, or the judge, that `loss.teacher` names. Raises UsageError where a model is no reranker that Foil
    trained, and where no topic of the view has a list by the judge; how many have none is logged."""

    def __init__(self, settings: TrainSettings, view: TrainingView) -> None:
        assert settings.loss.teacher
        self._plain_weight = settings.retention.plain_weight
        self._scorer = _load_scorer(settings, model) if (model := settings.loss.teacher.model) else None
        if self._scorer is None:
            _count_scored(view)

    def lists(self, batch: Batch) -> list[TaughtList]:
        """The lists of a batch that have relevant passages and others, with weights that add up to 1."""
        cells = np.column_stack((batch.judged, np.arange(len(batch.judged))))
        scored = cells if self._scorer else cells[~np.isnan(batch.probabilities)]
        lists = [list(own) for _, own in groupby(sorted(scored.tolist()), key=itemgetter(0))]
        lists = [own for own in lists if len({relevant for _, _, relevant, _ in own}) == 2]
        logits = torch.split(self._logits(batch, list(chain(*lists))), [len(own) for own in lists])
        weights = [1.0 if batch.pairs[own[0][0]][0] else self._plain_weight for own in lists]
        total, taught = sum(weights) or 1.0, []
        for own, weight, scores in zip(lists, weights, logits, strict=True):
            pair, passages, relevant, _ = torch.tensor(own).T
            taught.append(TaughtList(weight / total, pair, passages, relevant > 0, scores))
        return taught

    def _logits(self, batch: Batch, cells: Sequence[Sequence[int]]) -> Tensor:
        if self._scorer is None or not cells:
            return torch.from_numpy(log_odds(batch.probabilities[[place for *_, place in cells]]))
        queries = self._scorer.texts.format_pairs(batch.pairs)
        return self._scorer.score([(queries[pair], batch.passages[passage]) for pair, passage, *_ in cells])


def _load_scorer(settings: TrainSettings, folder: Path) -> PairScorer:
    facts = check_model(folder)
    if not ranks_pairs(facts):
        raise UsageError(f"the teacher {folder} is no reranker; train one with `train.reranker`")
    encode = settings.encode.model_copy(update={"max_tokens": facts["settings"]["encode"]["max_tokens"]})
    template = TextTemplate(**facts["template"])
    return load_pair_scorer(folder, template, encode, settings.model.model_copy(update={"dropout": False}))


def _count_scored(view: TrainingView) -> None:
    topics, scored = view.facts["train"]["topics_kept"], view.facts["train"]["topics_scored"]
    if not scored:
        runs = ", ".join(str(source.snapshot.out) for source in view.sources)
        raise UsageError(
            f"{JUDGE} gave none of the {topics:,} training topics of {runs} a P(relevant) of both a relevant passage "
            f"and another one under one intent; put {JUDGE} among the run's `validators` (`foil revalidate` asks it "
            "about a run that is there), or leave out loss.teacher"
        )
    if scored < topics:
        LOG.warning(
            "%s scored %s of %s training topics; the other %s are learnt by their labels alone", JUDGE, f"{scored:,}",
            f"{topics:,}", f"{topics - scored:,}",
        )  # fmt: skip


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
