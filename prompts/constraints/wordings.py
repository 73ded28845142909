"""How a requirement is said: for every family of constraints, verb phrases that affirm it and phrases that deny it.

Each phrase is a verb phrase in its base form, so that it fits behind "must" as well as behind "a passage that";
`third_person` and `plural` bend it. `{x}` stands for the constraint's value as `SHOWN` spells it, or as it is.
"""

from __future__ import annotations

from collections.abc import Mapping


def _phrases(block: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in block.strip().splitlines())


AFFIRMED: Mapping[str, tuple[str, ...]] = {
    family: _phrases(block)
    for family, block in {
        "mentions": """
            mention {x}
            bring up {x}
            refer to {x}
            touch on {x}
            say something about {x}
            talk about {x}
            make a point about {x}
            have {x} in it""",
        "names": """
            mention {x} by name
            name {x}
            refer to {x} by name
            bring in {x}
            speak of {x}
            contain the name {x}
            connect the subject with {x}""",
        "discusses": """
            discuss {x}
            deal with {x}
            go into {x}
            come back to {x} more than once
            speak of {x} repeatedly
            dwell on {x}
            give room to {x}""",
        "number": """
            give the figure {x}
            contain the number {x}
            state {x} as one of its figures
            report the value {x}
            show the number {x}
            work with the figure {x}
            quote the number {x}""",
        "year": """
            give {x}
            state {x}
            mention {x}
            place things in time by naming {x}
            include {x} as a date
            tell the reader {x}
            set down {x}""",
        "percentage": """
            give a percentage
            state some share in percent
            quote a figure in percent
            express something as a percentage
            contain a percentage figure
            report a rate in percent
            put a number on it in percent""",
        "money": """
            give an amount of money
            state a price or sum of money
            quote a dollar or other currency amount
            put a figure in money on something
            mention what something costs or pays
            contain a sum of money
            say how much money is involved""",
        "measure": """
            state {x}
            give {x}
            contain {x}
            quote {x}
            report {x}
            tell the reader {x}
            put a number on {x}""",
        "example": """
            give an example
            illustrate the point with an example
            include at least one example
            make it concrete with an example
            show an example
            offer the reader an example
            contain an example""",
        "caveat": """
            add a caveat
            warn about a limitation or exception
            point out what to be careful about
            qualify what it says with a caution
            mention a restriction or exception
            note where things differ or go wrong
            contain a warning or reservation""",
        "reason": """
            give a reason
            explain why
            say what causes or explains it
            back up a statement with its cause
            offer an explanation of the cause
            connect cause and effect
            state why something is so""",
        "comparison": """
            compare it with something else
            draw a comparison
            set one thing against another
            contrast it with an alternative
            say how it differs from or resembles something else
            make a comparison with another case
            weigh one thing against another""",
        "reader": """
            address the reader as "you"
            speak to the reader directly
            talk to the reader in the second person
            use the word "you"
            turn to the reader personally
            be written to "you"
            say "you" or "your" to the reader""",
        "definition": """
            define a term
            explain what a term means
            give a definition
            spell out the meaning of a word or name
            say what something is called or stands for
            tell the reader what an expression means
            contain a definition""",
        "advice": """
            give advice
            recommend something
            say what one should do
            offer a recommendation
            tell the reader what is best to do
            contain a piece of advice
            suggest a course of action""",
        "further_reading": """
            point to further sources
            refer the reader to related material
            cite other works or pages
            name a place to read on
            carry a reference or a link
            include references for follow-up
            direct the reader elsewhere for more""",
        "quotation": """
            quote a phrase or title in quotation marks
            contain something set in quotation marks
            put a phrase in quotation marks
            use a direct quotation
            include quoted words
            set some words off as a quotation
            carry a quoted expression""",
        "question": """
            pose a question
            ask a question somewhere
            contain a question
            put a question to the reader
            raise a question in its text
            include a sentence that ends in a question mark
            use a question""",
        "date": """
            name a month or a day of the week
            give a date with its month
            mention a month
            place something in a particular month or on a weekday
            state on which day or in which month something happens
            contain a calendar date""",
        "history": """
            tell something of the history or origin
            say how or when it began
            go back to its beginnings
            speak of its past
            mention who invented, founded or first did it
            include some historical background""",
        "process": """
            describe steps in their order
            walk through a process
            say what comes first and what follows
            explain how to go about it step by step
            give instructions in sequence
            describe a procedure""",
        "benefit": """
            mention a benefit or advantage
            say what it is good for
            name something that speaks for it
            point out how it helps
            speak of its advantages
            describe an improvement that it brings""",
        "risk": """
            mention a risk or danger
            speak of harm, damage or side effects
            name a problem that it can cause
            point out what can go wrong
            describe a disease, injury or failure
            say something about dangers""",
        "place": """
            say where it is found or located
            mention a city, state, country or region
            give a location
            speak of a place
            tell the reader where something is
            contain a geographical detail""",
        "attribution": """
            say who said or found it
            attribute a statement to someone
            refer to a study, a report or an expert
            name the source of a claim
            report what somebody says
            back a statement by research or authority""",
        "uncertainty": """
            express uncertainty
            say that something may or might be so
            speak of possibilities rather than certainties
            hedge what it says
            describe something as possible or probable
            leave something open""",
        "superlative": """
            single something out as the most, the best or the largest
            contain a superlative
            say what is most important or most common
            name an extreme
            rank something above all others
            speak of the highest, the lowest or the like""",
        "kinds": """
            distinguish several kinds or types
            name the parts that it consists of
            list different kinds
            divide the subject into types or components
            say which kinds there are
            speak of categories or components""",
        "purpose": """
            say what it is used for
            state a purpose
            explain what it serves for
            mention its use
            tell the reader what one does with it
            speak of its function""",
        "figure": """
            give a number
            contain at least one figure
            state something in numbers
            include numerical detail
            put a number on something
            be concrete by giving a figure""",
        "default": """
            mention a default
            say what happens by default
            state the default value
            tell the reader what is assumed if nothing is given
            speak of default behaviour
            give the default setting""",
        "performance": """
            say something about speed or memory
            speak of performance
            mention efficiency
            tell the reader what is fast or slow
            discuss how costly it is to run
            deal with computing time or memory use""",
        "shape": """
            speak of shapes or dimensions of arrays
            state the shape or number of dimensions
            mention axes or dimensions
            say what shape the data have
            describe the dimensions involved
            deal with array shapes""",
        "data_type": """
            mention data types
            say which type of data is expected or produced
            speak of types such as float or integer
            state the data type
            name the type of a value
            deal with dtypes or types of values""",
        "missing_values": """
            say how missing or invalid values are treated
            mention NaN or empty input
            deal with missing data
            speak of null or absent values
            tell the reader what happens with empty or missing values
            cover the case of missing values""",
        "list": """
            be laid out as a list
            set its points out as bullet points or numbered items
            use bullet points or numbering
            present the material item by item in a list
            be formatted as a list
            break the content into list items
            be organised as a bulleted or numbered list""",
        "at_most_words": """
            be at most {x} words long
            be no longer than {x} words
            stay within {x} words
            be short, at most {x} words
            take up no more than {x} words
            fit into {x} words
            be kept to {x} words or fewer""",
        "at_least_words": """
            be at least {x} words long
            be no shorter than {x} words
            run to {x} words or more
            be detailed, at least {x} words
            fill {x} words or more
            have a length of {x} words or more
            be long, with {x} words at least""",
        "code_sample": """
            show a code sample
            include a snippet of code
            contain an interactive session or code listing
            demonstrate usage in code
            have runnable lines of code in it
            give a short piece of code
            illustrate the use with code""",
        "source": """
            be source code
            consist of actual program code
            contain the implementation itself
            show the code of the implementation
            give the implementation in code
            present real source code
            include the body of a function or class""",
        "section": """
            describe {x}
            document {x}
            cover {x}
            spell out {x}
            contain a section on {x}
            have a part devoted to {x}
            set out {x}""",
        "parameter": """
            document the parameter {x}
            explain the argument {x}
            describe what {x} is for as an argument
            cover the parameter {x}
            say what the argument {x} does
            list {x} among the documented arguments
            spell out the parameter {x}""",
        "raises": """
            mention {x}
            refer to {x}
            say something about {x}
            cover {x}
            bring up {x}
            tell the reader about {x}
            involve {x}""",
        "version": """
            say in which version something was added or changed
            mention a version in which the behaviour changed
            tell since which version this applies
            carry a note on version history
            point out a change or deprecation between versions
            note when the feature was introduced or deprecated
            contain version information about a change""",
        "language": """
            be written in {x}
            use {x}
            be a {x} version
            be implemented in {x}
            solve it in {x}
            contain {x} code
            be coded in {x}""",
        "approach": """
            use {x}
            work with {x}
            rely on {x}
            make use of {x}
            solve it by means of {x}
            take an approach built on {x}
            employ {x}""",
        "uses": """
            call {x}
            use a call of {x}
            make use of {x} in code
            contain a call to {x}
            invoke {x}
            show {x} being called
            rely on the call {x}""",
        "comments": """
            carry comments in the code
            explain the code with comments
            contain code comments
            comment on what the code does
            have explanatory comments between its lines
            include remarks inside the code
            be commented code""",
        "complexity": """
            state the complexity in big-O notation
            give the running time or space in O(...) form
            say how the cost grows in big-O terms
            include a complexity analysis
            mention the asymptotic cost
            report the time or space complexity
            contain a big-O bound""",
        "library": """
            come from {x}
            be about {x}
            belong to {x}
            describe something in {x}
            document a part of {x}
            cover the {x} version
            treat {x}""",
        "at_most_steps": """
            show at most {x} written calculations
            get there in no more than {x} calculation lines
            be brief, with {x} calculation lines at most
            keep to {x} calculation lines or fewer
            take at most {x} calculation steps
            be worked out in {x} steps of calculation or fewer""",
        "at_least_steps": """
            show at least {x} written calculations
            spell out {x} or more calculation lines
            be detailed, with at least {x} calculation lines
            go through at least {x} calculation steps
            take the reader through {x} or more calculations
            break the work into {x} steps of calculation or more""",
        "operation": """
            use {x}
            involve {x}
            perform {x}
            carry out {x}
            need {x}
            work by {x}
            contain a step with {x}""",
        "decimals": """
            use decimal numbers
            contain a number with a decimal point
            calculate with decimals
            show decimal values
            include a decimal figure
            state a value with digits after the point
            work with decimal fractions""",
        "unknown": """
            introduce a letter for the unknown
            set up a variable
            solve it with algebra
            work with an unknown such as x
            name a quantity by a letter
            write the problem as an equation with a variable
            use a symbol for what is sought""",
        "total": """
            work out a total
            add things up to a total
            speak of a total or sum
            combine the parts into a total
            say how many there are altogether
            compute what everything comes to in total
            mention the total""",
        "arithmetic": """
            write out the arithmetic
            show a calculation with numbers and an equals sign
            contain a written-out calculation
            put the numbers into an explicit equation
            spell out how the numbers are combined
            display the computation itself
            include a numeric equation""",
        "answer_line": """
            state the final answer on its own
            end in a clearly marked answer
            mark the final answer
            set the final result apart
            give the answer on a separate line
            close with an explicit final answer
            single out the result as the answer""",
    }.items()
}

DENIED: Mapping[str, tuple[str, ...]] = {
    family: _phrases(block)
    for family, block in {
        "mentions": """
            leave out {x}
            say nothing about {x}
            make no mention of {x}
            stay clear of {x}
            do without any reference to {x}
            keep {x} out of it
            be silent on {x}""",
        "names": """
            leave {x} unnamed
            make no mention of {x}
            do without naming {x}
            keep {x} out of it
            say nothing of {x}
            leave out {x}""",
        "discusses": """
            spend no time on {x}
            leave {x} aside
            keep off the subject of {x}
            give no room to {x}
            avoid dwelling on {x}
            do without a discussion of {x}""",
        "number": """
            leave out the figure {x}
            do without the number {x}
            avoid the figure {x}
            be free of the number {x}
            make no use of the number {x}
            omit the value {x}""",
        "year": """
            leave out {x}
            do without {x}
            omit {x}
            make no mention of {x}
            avoid stating {x}
            keep {x} out""",
        "percentage": """
            do without percentages
            be free of percent figures
            leave out any percentage
            avoid figures in percent
            keep percentages out
            give no percentage""",
        "money": """
            leave out sums of money
            do without any price or amount of money
            be free of currency amounts
            avoid naming prices or sums
            give no amount of money
            keep money figures out""",
        "measure": """
            do without {x}
            leave out {x}
            omit {x}
            avoid giving {x}
            be free of {x}
            lack {x}""",
        "example": """
            do without examples
            leave out any example
            be free of examples
            offer no example
            avoid examples
            get by without an example""",
        "caveat": """
            do without caveats
            be free of warnings and exceptions
            leave out limitations and cautions
            add no reservation
            state things without a caveat
            avoid qualifications and warnings""",
        "reason": """
            leave causes and reasons aside
            state things without saying why
            give no reason
            do without explanations of the cause
            be free of explanations why
            omit the reasons""",
        "comparison": """
            do without comparisons
            leave out any comparison
            describe it on its own terms, without contrasting it
            avoid setting it against something else
            be free of comparisons
            draw no comparison""",
        "reader": """
            avoid addressing the reader
            be impersonal, never saying "you"
            do without the word "you"
            keep the reader out of it
            stay in the third person
            be free of "you" and "your\"""",
        "definition": """
            do without definitions
            leave terms undefined
            define no term
            be free of definitions
            take the vocabulary as known
            skip any definition""",
        "advice": """
            give no advice
            describe without recommending anything
            be free of recommendations
            leave out what one should do
            refrain from advice
            do without suggestions""",
        "further_reading": """
            stand alone without pointing elsewhere
            do without references and links
            be free of references to other material
            leave out further reading
            cite nothing
            send the reader nowhere else""",
        "quotation": """
            be free of quotation marks
            do without quoted phrases
            quote nothing
            avoid quotations
            leave out quoted words
            use no quotation marks""",
        "question": """
            ask no question
            be free of questions
            do without questions
            consist of statements only
            avoid question marks
            leave out any question""",
        "date": """
            do without months and weekdays
            leave out calendar dates
            name no month
            be free of dates""",
        "history": """
            leave the history aside
            do without historical background
            say nothing of origins or the past
            stay with the present""",
        "process": """
            do without step-by-step instructions
            leave out any procedure
            describe no sequence of steps
            be free of instructions in sequence""",
        "benefit": """
            leave benefits aside
            do without praise of advantages
            name no benefit
            say nothing of advantages""",
        "risk": """
            leave out risks and dangers
            say nothing of harm or damage
            be free of talk about dangers
            do without risks and side effects""",
        "place": """
            leave out locations
            name no place
            do without geographical detail
            say nothing of where it is""",
        "attribution": """
            cite nobody
            do without studies and experts
            state things without naming who said them
            leave out who found or said it""",
        "uncertainty": """
            speak in certainties
            be free of "may" and "might"
            do without hedging
            leave nothing open""",
        "superlative": """
            do without superlatives
            name no extreme
            rank nothing above all else
            be free of superlatives""",
        "kinds": """
            leave out kinds and types
            make no distinction of kinds
            do without a division into parts or types
            be free of categories""",
        "purpose": """
            leave the purpose aside
            say nothing of what it is used for
            do without a statement of purpose
            be silent on its use""",
        "figure": """
            do without numbers
            be free of figures
            give no number
            leave out numerical detail""",
        "default": """
            leave out defaults
            do without default values
            say nothing of default behaviour
            be free of defaults""",
        "performance": """
            leave performance aside
            say nothing of speed or memory
            do without remarks on efficiency
            be free of performance talk""",
        "shape": """
            leave shapes and dimensions aside
            say nothing of array dimensions
            do without shapes
            be free of talk about axes and dimensions""",
        "data_type": """
            leave data types aside
            say nothing of types of values
            do without data types
            be free of talk about dtypes""",
        "missing_values": """
            leave missing values aside
            say nothing of NaN or empty input
            do without missing values
            be free of talk about absent values""",
        "list": """
            be written as running prose
            read as continuous text
            avoid bullet points and numbering
            be free of list items
            do without a list layout
            flow as ordinary sentences""",
        "at_most_words": """
            be longer than {x} words
            exceed {x} words
            run past {x} words
            go beyond {x} words
            have more than {x} words
            take more room than {x} words""",
        "at_least_words": """
            be shorter than {x} words
            stay below {x} words
            have fewer than {x} words
            be brief, under {x} words
            take less than {x} words
            remain under {x} words""",
        "code_sample": """
            do without code samples
            explain in words alone, without code
            be free of code snippets
            leave out code listings
            contain no lines of code to run
            avoid showing code""",
        "source": """
            explain rather than show the implementation
            be free of source code
            do without the implementation code
            leave the implementation out
            be descriptive text instead of program code
            contain no function or class body""",
        "section": """
            leave out {x}
            do without {x}
            omit {x}
            skip {x}
            say nothing of {x}
            lack a section on {x}""",
        "parameter": """
            leave the argument {x} undocumented
            say nothing of the parameter {x}
            omit the parameter {x}
            skip the argument {x}
            do without a description of {x}
            pass over the parameter {x}""",
        "raises": """
            leave out {x}
            say nothing about {x}
            make no mention of {x}
            do without {x}
            omit {x}
            pass over {x}""",
        "version": """
            leave out version notes
            be free of version history
            say nothing about versions
            do without notes on what changed between versions
            omit version information
            carry no version remark""",
        "language": """
            be in a language other than {x}
            avoid {x}
            be free of {x}
            do without {x}
            use something other than {x}
            stay away from {x}""",
        "approach": """
            do without {x}
            avoid {x}
            get by without {x}
            solve it without {x}
            stay away from {x}
            make no use of {x}""",
        "uses": """
            do without {x}
            avoid calling {x}
            make no call to {x}
            get by without {x}
            leave {x} uncalled
            stay away from {x}""",
        "comments": """
            be bare code without comments
            carry no comments
            do without comments
            be free of comments
            leave the code uncommented
            omit comments""",
        "complexity": """
            leave out the complexity
            say nothing about big-O cost
            do without a complexity analysis
            be free of big-O notation
            omit time and space bounds
            give no asymptotic bound""",
        "library": """
            come from somewhere other than {x}
            have nothing to do with {x}
            be about something outside {x}
            stay out of {x}
            avoid {x}
            belong to something other than {x}""",
        "at_most_steps": """
            show more than {x} written calculations
            have more than {x} calculation lines
            take more than {x} calculation steps
            go beyond {x} calculation lines
            exceed {x} calculation steps
            need more than {x} steps of calculation""",
        "at_least_steps": """
            show fewer than {x} written calculations
            have fewer than {x} calculation lines
            take fewer than {x} calculation steps
            stay below {x} calculation lines
            get there in fewer than {x} calculation steps
            need fewer than {x} steps of calculation""",
        "operation": """
            do without {x}
            get by without {x}
            avoid {x}
            need no {x}
            leave out {x}
            be free of {x}""",
        "decimals": """
            be free of decimals
            use whole numbers only
            do without decimal points
            avoid decimal values
            contain no decimal number
            stay with whole numbers""",
        "unknown": """
            do without algebra
            work with the numbers directly, without a variable
            introduce no letter for the unknown
            be free of variables
            avoid setting up a variable
            use plain arithmetic without an unknown""",
        "total": """
            compute no total
            do without a total
            leave out any total
            avoid adding up to a total
            say nothing of a total
            be free of totals""",
        "arithmetic": """
            put it in words without written-out calculations
            leave the arithmetic out
            do without numeric equations
            be free of written-out calculations
            show no calculation
            avoid explicit arithmetic""",
        "answer_line": """
            leave the answer unmarked within the text
            do without a separate answer line
            have no marked final answer
            set no answer apart
            be free of an answer marker
            avoid a separate final answer""",
    }.items()
}

SHOWN: Mapping[str, Mapping[str, str]] = {
    "measure": {
        "duration": "a length of time",
        "distance": "a length or distance in units",
        "weight": "a weight in units",
        "temperature": "a temperature",
        "volume": "a volume in units",
        "data": "an amount of computer memory",
        "time": "a time of day",
    },
    "section": {
        "parameters": "the parameters that can be passed",
        "returns": "the return value",
        "raises": "the errors that can be raised",
        "examples": "usage examples",
        "notes": "implementation notes and remarks",
        "see also": "related functions to look at",
        "references": "literature references",
        "attributes": "the attributes of the object",
        "yields": "the values that are yielded",
        "warnings": "warnings for the user",
        "methods": "the methods of the object",
    },
    "language": {
        "python": "Python", "java": "Java", "cpp": "C++", "javascript": "JavaScript", "typescript": "TypeScript",
        "go": "Go", "rust": "Rust", "c": "C", "csharp": "C#", "sql": "SQL", "ruby": "Ruby", "kotlin": "Kotlin",
    },
    "approach": {
        "hash map": "a hash map or dictionary",
        "set": "a set of seen elements",
        "sorting": "sorting",
        "heap": "a heap or priority queue",
        "queue": "a queue",
        "stack": "a stack",
        "dynamic programming": "dynamic programming or memoisation",
        "binary search": "binary search",
        "bit manipulation": "bit manipulation",
        "recursion": "recursion",
        "two pointers": "two pointers",
        "loop": "an explicit loop",
        "string building": "string building or joining",
    },
    "operation": {
        "addition": "addition", "subtraction": "subtraction", "multiplication": "multiplication",
        "division": "division",
    },
}  # fmt: skip

YEAR_WITHOUT_VALUE = "a calendar year"
_IRREGULAR = {"be": "is", "have": "has", "do": "does", "go": "goes", "say": "says"}


def shown(family: str, value: str) -> str:
    """The value as a reader meets it: spelled out where `SHOWN` says how, code names between backticks."""
    if family in SHOWN:
        return SHOWN[family][value]
    if family == "year":
        return f"the year {value}" if value else YEAR_WITHOUT_VALUE
    if family in {"uses", "parameter", "raises"}:
        return f"`{value}`"
    if family in {"mentions", "discusses"} and value.islower() and (value.endswith("ss") or not value.endswith("s")):
        return f'"{value}"'
    return value


def deny(phrase: str) -> str:
    """ "say something about X" -> "not say anything about X"."""
    some_to_any = (
        phrase.replace("something", "anything").replace("somewhere", "anywhere").replace("at least one", "any")
    )
    return f"not {some_to_any}"


def third_person(phrase: str) -> str:
    """ "mention X" -> "mentions X"; "not mention X" -> "does not mention X"."""
    verb, _, rest = phrase.partition(" ")
    if verb == "not":
        return "is not " + rest[3:] if rest.startswith("be ") else f"does {phrase}"
    if verb in _IRREGULAR:
        bent = _IRREGULAR[verb]
    elif verb.endswith(("s", "sh", "ch", "x", "z")):
        bent = verb + "es"
    elif verb.endswith("y") and verb[-2] not in "aeiou":
        bent = verb[:-1] + "ies"
    else:
        bent = verb + "s"
    return f"{bent} {rest}"


def plural(phrase: str) -> str:
    """ "be short" -> "are short"; "not mention X" -> "do not mention X"."""
    if phrase.startswith("not "):
        return "are not " + phrase[7:] if phrase.startswith("not be ") else f"do {phrase}"
    return "are " + phrase[3:] if phrase.startswith("be ") else phrase
