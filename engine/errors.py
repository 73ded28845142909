"""The errors that `foil` ends with, and their exit codes.

    FoilError                      1   something that Foil knows how to say
      UsageError                   2   what the user gave is wrong: job file, option, path, SQL
        MissingValueError          2   a template uses a value that its inputs lack
        SeedFormatError            2   a line of a corpus is not what its format says
        DifferentJobError          2   `out` holds the run of another job
        SeedsChangedError          2   the corpus is not the one that this run began with
        NoRunError                 2   the folder that was named holds no run
        SqlRefusedError            2   a query that the curator's surface does not allow
      RunFailedError               3   the run ended, yet some seeds failed
      BudgetSpentError             4   the budget is used up; raise it and run again
      BudgetLostError             14   the process that keeps the run's budget is gone
      JudgeUnreliableError         5   a judge fails its canaries
      CorruptDataError             6   bytes on disk are not the bytes that were committed
      QueryStoppedError            7   a query passed its time or memory limit
      CommitError                  8
        CommitLostError            8   another writer committed this partition first; refresh
        CommitUnknownError         8   the outcome of a commit could not be learnt; look again
        MovedFolderError           8   the run's folder was moved, deleted, unmounted or replaced under it
        UnstorableTopicError       8   a topic holds what no shard can: a lone surrogate, a null
        JournalError               8   a reply could not be made durable
        SpoolError                 8   seeds could not be put aside for the workers, or not be read there
      ModelError                   9   a model could not answer
        TransientModelError        9   worth another attempt
          RateLimitedError         9   the model asks for patience (429)
          DiscardedReplyError      9   the provider threw a reply away that did not fit its schema; another may fit
        ModelOutageError           9   no endpoint of a model has answered for too long; run again when it does
        RefusedRequestError        9   the model refuses this request for good (400-class)
          FilteredRequestError     9   the provider's content filter does not let this prompt pass
        OversizeReplyError         9   a reply of more bytes than the model may send
        CutPromptError             9   a reply to a prompt of which the server read a part
        UnreadableReplyError       9   a reply that does not parse, after its correction turns
          CutReplyError            9   a reply that ended at its token limit
          WithheldReplyError       9   a reply that the provider's content filter held back
      TrainingDivergedError       10   a loss, a gradient or a weight became NaN or infinite; nothing of it is kept
      IncompleteRunError          11   what is committed is whole, and not all that was planned
      RunHeldError                12   another run holds this folder
      BreakerTrippedError         13   too many seeds failed, too few were accepted, or money went too fast
      ClusterUnreachableError     14   no Ray head answers at its address
      NotReadyError               15   `foil doctor`: something that a run needs is missing or refused
      InterruptedRunError       128+   a signal asked the run to stop; its number is added
    Rejected                       -   not an error: a recipe's decision not to make a topic
      FaultyReply                  -   a reply that its writer is asked to mend

Five more say something to the module that raises them alone, and live there: `DrainedError` (engine/flow),
`WorkerDiedError` (engine/runtime), `UnansweredError` (engine/planning), `EngineNotUpError` (engine/models) and
`FewAreStuckError` (engine/models).

A message says what happened, the offending value, and what to do.
"""

from __future__ import annotations

import pickle
import signal
import traceback
from contextlib import suppress
from typing import Any

from foil.engine.ids import unpickled


class FoilError(Exception):
    """Something went wrong that Foil knows how to explain."""

    exit_code = 1


class UsageError(FoilError):
    """What the user gave is wrong; nothing was started."""

    exit_code = 2


class SeedFormatError(UsageError):
    """A line or record of a corpus is not what its format requires."""

    def __init__(self, path: object, line: int, expected: str, actual: str) -> None:
        self.path, self.line, self.expected, self.found = str(path), line, expected, actual
        excerpt = actual if len(actual) <= 120 else actual[:117] + "..."
        super().__init__(
            f"{path}:{line}: expected {expected}, found {excerpt!r}; "
            "mend the line, or set `on_error: skip` to count and skip such lines"
        )

    def __reduce__(self) -> tuple[type[SeedFormatError], tuple[str, int, str, str]]:
        return type(self), (self.path, self.line, self.expected, self.found)


class DifferentJobError(UsageError):
    """The output folder holds the run of a different job."""


class SeedsChangedError(UsageError):
    """The seed stream is not the one of which rows are committed already, or replies paid."""

    def __init__(self, difference: str) -> None:
        self.difference = difference
        super().__init__(
            f"the seeds changed under this run: {difference}; restore the corpus as it was (BM25's negatives come from "
            "all of it), or give this job another `out` (with `--reuse`, no reply that still fits is paid for again)"
        )

    def __reduce__(self) -> tuple[type[SeedsChangedError], tuple[str]]:
        return type(self), (self.difference,)


class MissingValueError(UsageError):
    """A template uses a value that its inputs lack."""


class NoRunError(UsageError):
    """The folder that was named holds no run."""


class SqlRefusedError(UsageError):
    """The query does something that the curator's surface does not allow."""


class RunFailedError(FoilError):
    """The run ended, and at least one seed failed."""

    exit_code = 3


class BudgetSpentError(FoilError):
    """The budget is used up."""

    exit_code = 4


class BudgetLostError(FoilError):
    """The process that keeps the run's budget is gone. No seed is to blame, so none fails: the run stops."""

    exit_code = 14


class JudgeUnreliableError(FoilError):
    """A judge answered too many canaries wrongly."""

    exit_code = 5


class CorruptDataError(FoilError):
    """Bytes on disk differ from the bytes that were committed."""

    exit_code = 6


class TrainingDivergedError(FoilError):
    """Training met a number that is NaN or infinite and stopped before it was saved."""

    exit_code = 10


class IncompleteRunError(FoilError):
    """Nothing is damaged, and not every planned partition is committed."""

    exit_code = 11


class RunHeldError(FoilError):
    """Another run holds the folder: this one was refused, or had it and lost it."""

    exit_code = 12


class BreakerTrippedError(FoilError):
    """A limit of `limits.breakers` was passed; the run stopped before it cost more.

    `breaker`: `failures`, `money`, `accepted`, `tokens`.
    """

    exit_code = 13

    def __init__(self, message: str, breaker: str) -> None:
        super().__init__(message)
        self.breaker = breaker


class ClusterUnreachableError(FoilError):
    """No Ray head answers at the address that was given."""

    exit_code = 14


class InterruptedRunError(FoilError):
    """A signal asked the run to stop."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}; run it again to go on")
        self.signum, self.exit_code = signum, 128 + signum

    def __reduce__(self) -> tuple[type[InterruptedRunError], tuple[int]]:
        return type(self), (self.signum,)


class NotReadyError(FoilError):
    """Something that a run needs is missing here or on a node."""

    exit_code = 15


class QueryStoppedError(FoilError):
    """A query passed its time or memory limit and was stopped."""

    exit_code = 7


class CommitError(FoilError):
    """A commit did not happen, or is not known to have happened."""

    exit_code = 8


class CommitLostError(CommitError):
    """Another writer committed this partition first; the entry on disk is the truth."""


class CommitUnknownError(CommitError):
    """The storage failed while the entry was being put; look at it again before retrying."""


class MovedFolderError(CommitError):
    """The run's folder is not the one in which it began; what was made there is there still."""


class UnstorableTopicError(CommitError):
    """One topic cannot be stored; nothing was written. The same partition without it can be."""

    def __init__(self, topic_id: str, problem: str) -> None:
        self.topic_id, self.problem = topic_id, problem
        super().__init__(f"topic {topic_id} cannot be stored: {problem}; mend its seed, or commit it as failed")

    def __reduce__(self) -> tuple[type[UnstorableTopicError], tuple[str, str]]:
        return type(self), (self.topic_id, self.problem)


class JournalError(CommitError):
    """A reply, or a batch of requests, could not be made durable; nothing read it."""


class SpoolError(CommitError):
    """Seeds could not be put aside for the workers, or a worker could not read them there."""


class ModelError(FoilError):
    """A model gave no answer. `unsure`: a send of the request may have been billed all the same."""

    exit_code = 9
    unsure = False


class TransientModelError(ModelError):
    """The model may answer at another attempt. `retry_after_s` is the pause it asks for, None if it names none.

    `silent_s`: for so long nothing has passed at the endpoint, whoever asked. `reached`: somebody listens there.
    """

    silent_s, reached = 0.0, True

    def __init__(self, message: str, retry_after_s: float | None = None, *, unsure: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s, self.unsure = retry_after_s, unsure


class RateLimitedError(TransientModelError):
    """The model wants fewer requests."""


class DiscardedReplyError(TransientModelError):
    """The provider threw a reply away, since it did not fit the schema. Another sample may fit."""


class ModelOutageError(ModelError):
    """No endpoint of a model has answered for too long. No seed is to blame, so none fails: the run stops."""


class RefusedRequestError(ModelError):
    """The model refuses this request, and would refuse it again. `of_account`: it may be the key or the account."""

    of_account = False


class FilteredRequestError(RefusedRequestError):
    """The provider's content filter does not let this prompt pass."""


class OversizeReplyError(ModelError):
    """A reply of more bytes than the model may send; it was cut off, and is not asked for again."""

    unsure = True


class CutPromptError(ModelError):
    """A reply to a prompt of which the server read a part: what it was asked may be gone."""


class UnreadableReplyError(ModelError):
    """A reply that does not parse, after every correction turn."""


class CutReplyError(UnreadableReplyError):
    """A reply that ended at its token limit (finish_reason `length` or a like word), after every correction turn."""


class WithheldReplyError(UnreadableReplyError):
    """A reply that the provider's content filter held back (`content_filter` or a like word), after every turn."""


class Rejected(Exception):  # noqa: N818 - a decision, not an error
    """A recipe decides that this seed makes no topic; it becomes a row with this reason."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class FaultyReply(Rejected):
    """A reply that can be read and not be used: its writer gets `advice` and is asked again, as often as a stage may.

    After the last turn it rejects the seed; where `usable` is given, that answer is taken in its place.
    """

    def __init__(self, reason: str, detail: str, advice: str, usable: Any = None) -> None:
        super().__init__(reason, detail)
        self.advice, self.usable = advice, usable


def portable(error: Exception, what_failed: str) -> Exception:
    """The error for another process: as it is, with its traceback as a note; as text, where pickling breaks it."""
    text = "".join(traceback.format_exception(error))
    if not isinstance(error, FoilError):
        error.add_note(text)
    with suppress(Exception):  # whatever an exception of others does
        unpickled(pickle.dumps(error))
        return error
    return FoilError(f"{what_failed}:\n{text}")


RETRYABLE: tuple[type[Exception], ...] = (TransientModelError,)
"""The one truth about what is worth another attempt."""

STOPPING: tuple[type[FoilError], ...] = (
    BudgetLostError, BudgetSpentError, JudgeUnreliableError, JournalError, ModelOutageError, MovedFolderError,
    RunHeldError,
)  # fmt: skip
"""The one truth about what ends a run early instead of failing one seed: the next seed would meet it too."""
