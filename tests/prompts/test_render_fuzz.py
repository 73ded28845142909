"""Templates that are allowed: over any text they end within bounded time and memory, as a prompt or a refusal."""

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foil.engine.errors import UsageError
from foil.prompts.render import MAX_RENDERED, compile_template
from tests.support.fuzzing import fuzzed

SECONDS, BYTES = 5.0, 60_000_000
LONG = "seals rest on ice " * 3_400

COSTLY = [
    "{{ q|join(q)|length }}",
    "{{ q|join(q|upper)|upper|length }}",
    "{{ q|join|join(q)|length }}",
    "{% for c in q %}{{ q|upper|length }}{% endfor %}",
    "{% for c in q %}{{ q|join('x')|length }}{% endfor %}",
    "{% for c in q %}{% if q == r %}{% endif %}{% endfor %}",
    "{% for c in q %}{% if 'zz' in q %}{% endif %}{% endfor %}",
    "{% for c in q %}{% if c in r and q != r %}{% endif %}{% endfor %}",
    "{% for c in q if q|trim|length %}{% endfor %}",
    "{% for c in q|join(',') %}" + "{{ c|upper|lower|first }}" * 60 + "{% endfor %}",
]


def run(body: str, **inputs: Any) -> str:
    """The rendered text, or the refusal; within the bounds of time and memory."""
    tracemalloc.start()
    start = time.process_time()
    try:
        template = compile_template("test/case", f"=== user ===\n{body}")
        rendered = template.render(**{name: inputs[name] for name in template.variables}).messages[0].content
    except UsageError as error:
        rendered = f"refused: {error}"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.process_time() - start < SECONDS
    assert peak < BYTES
    assert len(rendered) <= MAX_RENDERED
    return rendered


@pytest.mark.parametrize("body", COSTLY)
def test_a_costly_template_is_stopped_before_it_costs(body: str) -> None:
    refusal = run(body, q=LONG, r=LONG[:-1] + ".")
    assert "takes more than 5,000,000 steps" in refusal or "`join` gives 3,745,440,000 characters" in refusal
    assert not run(body, q="a b", r="a c").startswith("refused")


def test_what_templates_do_with_long_passages_is_allowed() -> None:
    passages = [{"text": LONG, "title": "Seals", "tags": ["a", "b"]}] * 8
    body = (
        "{% for p in ps if p.text %}{{ p.title|upper }}: {{ p.tags|join(', ') }} {{ p.text|trim|length }}\n{% endfor %}"
    )
    assert run(body, ps=passages).startswith("SEALS: a, b 61199\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "{{ " + "9" * 5_000 + " }}",
        "{{ " + "(" * 5_000 + "q" + ")" * 5_000 + " }}",
        "{{ " + "not " * 9_000 + "q }}",
        "{{ q" + ".a" * 9_000 + " }}",
        "{{ q" + "|trim" * 9_000 + " }}",
        "{% if q %}" * 4_000,
        "{{ 1e999999 }}{{ q[1e9] }}",
        "{{ q|join(attribute='text') }}",
        "{{ q|join('a', 'b', 'c') }}",
        "{{ q|length(1) }}",
        "{{ q|trim(q, q) }}",
    ],
)
def test_a_template_that_breaks_the_parser_or_a_filter_is_refused(body: str) -> None:
    assert run(body, q="text").startswith("refused: ")


NAMES = st.sampled_from(["q", "r", "ps", "item.text", "item", "q[0]", "ps[0].text", "n", "'x'", "1"])
FILTERS = st.sampled_from(
    ["join", "join(q)", "join(', ')", "length", "lower", "upper", "trim", "first", "last", "trim(q)"]
)
EXPRESSION = st.recursive(
    NAMES,
    lambda inner: st.one_of(
        st.tuples(inner, FILTERS).map("|".join),
        st.tuples(inner, st.sampled_from(["==", "in", "<", "!=", "not in", "and", "or"]), inner).map(
            "({0[0]} {0[1]} {0[2]})".format
        ),
        st.tuples(inner, inner).map("({0[0]} if {0[1]} else r)".format),
        inner.map("(not {})".format),
    ),
    max_leaves=5,
)
BODY = st.recursive(
    EXPRESSION.map("{{{{ {} }}}}".format) | st.text(alphabet="ab {}%#\n", max_size=6),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(EXPRESSION, inner).map("{{% for item in {0[0]} %}}{0[1]}{{% endfor %}}".format),
        st.tuples(EXPRESSION, inner).map("{{% if {0[0]} %}}{0[1]}{{% endif %}}".format),
    ),
    max_leaves=6,
)
VALUES = st.text(max_size=40) | st.text(min_size=1, max_size=5).map(lambda text: (text * 60_000)[:60_000])


@pytest.mark.slow
@fuzzed(150)
@given(body=BODY, q=VALUES, r=VALUES, texts=st.lists(VALUES, max_size=3))
def test_any_allowed_template_over_any_text_ends(body: str, q: str, r: str, texts: list[str]) -> None:
    run(body, q=q, r=r, n=3, item="i", ps=[{"text": text, "blocks": [text]} for text in texts])
