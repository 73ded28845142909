"""Seeds of our own, one in the manner of each corpus that recipes read."""

from collections.abc import Mapping

from foil.engine.topic import Passage, Seed


def passage(text: str, role="seed_positive", title: str = "", **attributes: str) -> Passage:
    return Passage(text, role, title=title, attributes=attributes)


def _text(corpus: str, **attributes: str) -> Seed:
    return Seed(
        "ferry",
        corpus,
        "how long does the ferry to Lower Saltmarsh take",
        (
            passage(
                "The ferry to Lower Saltmarsh takes 35 minutes. It has run since 1911, when the causeway was given up. "
                "Tickets cost $4 and are sold on board. It runs at any hour except in winter. "
                "Passengers are advised to bring a coat, because the deck is open. Seals can be seen at low tide, for "
                "example near Gull Rock."
            ),
            passage(
                "You reach Lower Saltmarsh by boat. The ferry takes 35 minutes by way of Mallow Bay and about an "
                "hour when the tide runs out. Captain Ines Holm says that nobody has missed the last boat in a decade."
            ),
        ),
        (
            passage(
                "The harbour museum in Lower Saltmarsh shows model ships and nets. It was founded in 1987 by retired "
                "pilots. Admission is $6, and children under ten enter free. All floors are open except in winter.",
                "seed_negative",
                query="what does the harbour museum show",
            ),
            passage(
                "Salt marshes protect the coast from storms, because their grasses slow the waves. Researchers found "
                "that a strip of 40 metres halves the height of a wave. Many marshes were drained in the 1800s.",
                "seed_negative",
                query="why do salt marshes protect the coast",
            ),
            passage(
                "A lighthouse keeper trims the lamp at dusk. You can visit the tower on Sundays. For example, guided "
                "tours start at noon and cost $3.",
                "seed_negative",
                query="when can the tower be visited",
            ),
        ),
        "CC0-1.0",
        redistributable=True,
        attributes=attributes,
    )


def _documentation() -> Seed:
    facts = {"form": "documentation", "language": "python", "library": "tides"}
    return Seed(
        "tides.height",
        "python_docs",
        "Which function gives the height of the water at a given hour?",
        (
            passage(
                "The height is interpolated between the two nearest readings.\n\nParameters\n----------\nhour : float\n"
                "    Hours since midnight.\nmethod : str\n    How to interpolate; the default is 'cosine'.\n\n"
                "Raises\n------\nValueError\n    If the hour is negative.\n\nNotes\n-----\nAdded in version 2.1.\n\n"
                "Examples\n--------\n>>> height(6.5)\n1.82\n",
                title="tides.height",
                **facts,
            ),
            passage(
                "Gives the height of the water above the zero of the chart.\n\nParameters\n----------\n"
                "time : datetime\n    A moment of any day.\n\nReturns\n-------\nfloat\n    The height in metres; NaN "
                "where readings are missing.\n\nNotes\n-----\nSlow for many moments, because each reads the table.\n",
                title="tides.level",
                **facts,
            ),
        ),
        (
            passage(
                "Reads the stations of a table.\n\nParameters\n----------\npath : str\n    A file of readings.\n\n"
                "Raises\n------\nOSError\n    If the file cannot be read.\n\nExamples\n--------\n"
                ">>> stations('north.csv')\n['Holm', 'Sand']\n",
                "seed_negative",
                title="tides.stations",
                query="Which function lists the stations of a file of readings?",
                **facts,
            ),
            passage(
                "Draws the curve of one day.\n\nParameters\n----------\ncolour : str\n    Any name of a colour.\n\n"
                "Notes\n-----\nThe axes are labelled in metres, for example 0 to 4.\n",
                "seed_negative",
                title="tides.draw",
                query="How is the curve of a day drawn?",
                **facts,
            ),
        ),
        "CC0-1.0",
        redistributable=True,
    )


def _code() -> Seed:
    python = {"form": "source", "language": "python"}
    return Seed(
        "two-sum",
        "leetcode",
        "Given a list of integers and a target, return the indices of the two numbers that add up to the target.",
        (
            passage(
                "def two_sum(numbers, target):\n    seen = {}\n    for index, number in enumerate(numbers):\n"
                "        # look for what is missing\n        if target - number in seen:\n"
                "            return [seen[target - number], index]\n        seen[number] = index\n    return []\n",
                **python,
            ),
            passage(
                "def two_sum(numbers, target):\n    order = sorted(range(len(numbers)), key=numbers.__getitem__)\n"
                "    left, right = 0, len(order) - 1\n    while left < right:\n"
                "        total = numbers[order[left]] + numbers[order[right]]\n        if total == target:\n"
                "            return [order[left], order[right]]\n        if total < target:\n            left += 1\n"
                "        else:\n            right -= 1\n    return []\n",
                **python,
            ),
        ),
        (
            passage(
                "def longest_run(values):\n    best = run = 1\n    # walk over neighbours\n"
                "    for before, after in zip(values, values[1:]):\n        run = run + 1 if after > before else 1\n"
                "        best = max(best, run)\n    return best\n",
                "seed_negative",
                title="Longest increasing run",
                query="Find the length of the longest increasing run of a list.",
                **python,
            ),
            passage(
                "def remove_duplicates(values):\n    seen = {}\n    kept = []\n    for value in values:\n"
                "        if value not in seen:\n            seen[value] = True\n            kept.append(value)\n"
                "    return kept\n",
                "seed_negative",
                title="Remove duplicates",
                query="Remove the duplicates of a list and keep the order.",
                **python,
            ),
        ),
        "CC0-1.0",
        redistributable=True,
    )


def _mathematics() -> Seed:
    return Seed(
        "apples",
        "metamath",
        "A crate holds 24 apples. Five crates are delivered and 18 apples are bad. How many good apples are there?",
        (
            passage(
                "First count all apples that were delivered.\n24 * 5 = 120 apples.\nLet x be the number of good ones.\n"
                "The bad ones are taken away from the total.\n120 - 18 = 102 apples.\n#### 102",
                form="solution",
            ),
            passage(
                "Five crates of 24 apples make 5 * 24 = 120.\nOf these, 120 - 18 = 102 can be eaten.\n#### 102",
                form="solution",
            ),
            passage(
                "The first four crates give 4 * 24 = 96 apples.\nThe fifth, with its bad ones out, gives 24 - 18 = 6.\n"
                "Altogether there are 96 + 6 = 102.\n#### 102",
                form="solution",
            ),
        ),
        (
            passage(
                "The rope is cut into pieces of equal length.\n36 / 4 = 9 metres.\nIn total, 9 + 2 = 11 metres are "
                "needed with the knots.\n#### 11",
                "seed_negative",
                query="A rope of 36 metres is cut into 4 pieces, each with 2 metres for a knot. How long is a piece?",
                form="solution",
            ),
            passage(
                "Let y be the number of children who ride.\nEach bus takes 45 children.\n45 * 3 = 135 children.\n"
                "Five of them stay at home, so in total 135 - 5 = 130 ride.\nThat is y = 130.\n#### 130",
                "seed_negative",
                query="How many children ride in three buses of 45 if five stay at home?",
                form="solution",
            ),
        ),
        "CC0-1.0",
        redistributable=True,
        attributes={"answer": "102"},
    )


SEEDS: Mapping[str, Seed] = {
    "msmarco": _text("msmarco"),
    "robust04": _text("robust04", narrative="Relevant documents state how long the crossing takes, in minutes."),
    "python_docs": _documentation(),
    "leetcode": _code(),
    "metamath": _mathematics(),
}

CORPORA = {
    "msmarco": "{kind: msmarco, path: DATA/msmarco/rows_dl.jsonl, negatives: 14}",
    "leetcode": "{kind: leetcode, path: DATA/leetcode}",
    "gsm8k": "{kind: metamath, corpus: gsm8k, path: DATA/gsm8k/example_model_solutions.jsonl}",
    "cacm": "{kind: robust04, corpus: cacm, topics: DATA/trec_sgml/cacm/topics.cacm.txt, "
    "qrels: DATA/trec_sgml/cacm/qrels.cacm.txt, documents: DATA/trec_sgml/cacm/cacm.tar.gz}",
    "cranfield": "{kind: robust04, corpus: cranfield, topic_ids: position, "
    "topics: DATA/trec_sgml/cranfield/cran.qry.xml, qrels: DATA/trec_sgml/cranfield/cranqrel.trec.txt, "
    "documents: DATA/trec_sgml/cranfield/cran.all.1400.xml}",
}
"""Readers of private real corpora; DATA stands for their folder."""
