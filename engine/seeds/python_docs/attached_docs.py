"""The texts that a file attaches to objects by calls, put together from its dicts of texts without running it.

dicts of the file -> doc_fragments -> `.format(**dict)` in a text -> literal_text
"""

import ast
import re
from collections.abc import Mapping, Sequence

DocFragments = Mapping[str, Mapping[str, str]]
"""Name of a dict -> name of a text -> the text. Two dicts may have a name in common, with other texts."""
_FIELD = re.compile(r"\{\{|\}\}|\{(\w+)\}")


def doc_fragments(node: ast.expr, fragments: DocFragments) -> dict[str, str]:
    """The texts of a dict, of `parse_kwargs("name (type): text ...")`, of `merge_dicts(...)` of such, or of a dict that
    has a name; nothing for anything else."""
    texts: dict[str, str] = {}
    match node:
        case ast.Name(id=name):
            texts |= fragments.get(name, {})
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                text = literal_text(value, fragments).strip()
                if text and isinstance(key, ast.Constant) and isinstance(key.value, str):
                    texts[key.value] = text
        case ast.Call(func=ast.Name(id="parse_kwargs"), args=[described, *_]):
            entries = re.split(r"\n {4}(?! )", literal_text(described, fragments))
            texts |= {entry.split()[0]: entry.strip() for entry in entries if entry.strip()}
        case ast.Call(func=ast.Name(id="merge_dicts"), args=parts):
            for part in parts:
                texts |= doc_fragments(part, fragments)
    return texts


def literal_text(node: ast.expr, fragments: DocFragments) -> str:
    """The text of a constant, of a sum of texts, of a `.format(**dict)` of one, or of an f-string that takes its values
    from dicts of texts; "" for anything else."""
    text = ""
    match node:
        case ast.Constant(value=str(constant)):
            text = constant
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            text = literal_text(left, fragments) + literal_text(right, fragments)
        case ast.JoinedStr(values=parts):
            text = "".join(literal_text(part, fragments) for part in parts)
        case ast.FormattedValue(value=value):
            text = literal_text(value, fragments)
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name))):
            text = doc_fragments(value, fragments).get(name, "")
        case ast.Call(func=ast.Attribute(value=value, attr="format"), args=args, keywords=keywords):
            text = _formatted(literal_text(value, fragments), keywords, fragments)
            for argument in args:
                text = text.replace("{}", literal_text(argument, fragments), 1)
    return text


def _formatted(text: str, keywords: Sequence[ast.keyword], fragments: DocFragments) -> str:
    """What `.format` makes of a text; a field that no dict has stands as it is."""
    texts: dict[str, str] = {}
    for keyword in keywords:
        if keyword.arg is None:
            texts |= doc_fragments(keyword.value, fragments)
        else:
            texts[keyword.arg] = literal_text(keyword.value, fragments)
    return _FIELD.sub(lambda match: texts.get(match[1], match[0]) if match[1] else match[0][0], text)
