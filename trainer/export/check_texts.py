"""Texts of our own, short and long, on which an exported model is compared with the one that it was made from."""

SENTENCES = (
    "The ferry leaves at dawn.",
    "How do I sort a table by two columns?",
    "A lighthouse keeper writes down the wind every hour, and nobody has read these books since 1931.",
    "Only passages that give a year.",
    "def area(width, height): return width * height",
    "Bread needs flour, water, salt and time; an oven at 230 degrees does the rest.",
    "Which rivers cross a border twice?",
    "The committee did not agree, so the bridge was built where the map had a gap.",
    "Passages that name no price, please.",
    "Le train de nuit part de Lyon à minuit.",
    "In the third experiment 12 of 40 seeds failed, which is 30 %.",
    "An instruction may deny what the query asks for.",
)


def check_texts() -> list[str]:
    """The sentences, growing texts that are joined from them, an empty one, and one beyond every cut."""
    grown = [" ".join(SENTENCES[: count + 1]) for count in range(1, len(SENTENCES))]
    return ["", *SENTENCES, *grown, " ".join(SENTENCES * 6)]


def check_pairs() -> list[tuple[str, str]]:
    """(instruction, query), with and without an instruction."""
    return [("", SENTENCES[1]), (SENTENCES[3], SENTENCES[6]), (SENTENCES[8], SENTENCES[5]), (SENTENCES[3], "")]
