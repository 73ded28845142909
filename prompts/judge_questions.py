"""A question about one passage, answered true or false in one token, whose logprobs tell how sure the model is."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from foil.engine.errors import RefusedRequestError
from foil.engine.protocols import Ask, Prompt
from foil.engine.topic import Passage
from foil.prompts.constraints.constraint import full_text
from foil.prompts.judge_answers import TrueFalse
from foil.prompts.judge_logprobs import probability_of_yes
from foil.prompts.render import PromptTemplate
from foil.prompts.sampling import judging
from foil.prompts.untrusted_text import inert, nonce

QUERY_CHARS = 20_000
"""Most characters of a query, an instruction or a question in a judge's prompt."""
_LOGPROBS: Mapping[str, Any] = MappingProxyType({"logprobs": True, "top_logprobs": 20})
"""Of a request: the answer's token, and the likeliest others."""
_ANSWER_TOKENS = 3
_CODED = "judges/demand"
"""What a code follows from besides the passage, whichever template asks."""


def question_prompt(
    template: PromptTemplate, passage: Passage, passage_chars: int, inputs: Mapping[str, str]
) -> Prompt:
    """The prompt. `inputs` are query, instruction and question, "" for what there is not.

    Its code follows from the passage alone: questions about a passage share all that stands before them.
    """
    text = inert(full_text(passage), passage_chars)
    fields = {name: inert(each, QUERY_CHARS) for name, each in inputs.items()}
    code = nonce([text], _CODED)
    if any(code in field for field in fields.values()):
        code = nonce([text, *fields.values()], _CODED)
    values = fields | {"code": code, "passage": text}
    return judging(template.render(**{name: values[name] for name in template.variables}), _ANSWER_TOKENS)


async def probability_true(ask: Ask, prompt: Prompt, role: str, *, logprobs: bool = True) -> tuple[float | None, bool]:
    """P(true), and whether logprobs say so; without them 1 or 0 by the word, None where the reply says neither.

    An endpoint that refuses logprobs is asked without.
    """
    first = replace(prompt, params=_LOGPROBS) if logprobs else prompt
    try:
        answer, listed = await ask.scored(first, TrueFalse, role=role)
    except RefusedRequestError:
        if not logprobs:
            raise
        answer, listed = await ask.scored(prompt, TrueFalse, role=role)
    probability = probability_of_yes(listed)
    if probability is not None:
        return probability, True
    return None if answer.answer is None else float(answer.answer), False
