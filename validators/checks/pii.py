"""Finds personal data in a text: e-mail address, telephone number, IP address, card number, bank account.

Only what its own form proves counts: a card by Luhn's check digit, an account by its IBAN's, an IP address if it is
public. Examples (example.org, 192.0.2.1, 555-0100) do not count. Promise: the evidence hides the middle of what was
found. Linear in the text, about 10 MB/s.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import IPv6Network, ip_address
from typing import Literal, get_args

from pydantic import Field

from foil.engine.settings import Settings
from foil.engine.topic import Topic, Verdict
from foil.validators.verdicts import Finding, TopicCheck, TopicText, texts_of, verdicts_of

Kind = Literal["email", "phone", "ip_address", "card", "iban"]

_SCANNED_CHARS = 200_000
_PUBLIC_IPV6 = IPv6Network("2000::/3")
_EXAMPLE_DOMAIN = re.compile(
    r"(?:^|[@.])(?:example|test|invalid|localhost|domain|host|yourdomain|mycompany)\b", re.IGNORECASE
)
_FICTIONAL_PHONE = re.compile(r"555.?01\d\d$")


def _is_public_address(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast and (address.version == 4 or address in _PUBLIC_IPV6)


def _is_card_number(text: str) -> bool:
    """Luhn's check, over 13 to 19 digits of a known issuer that are not one digit again and again."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [2 * d - 9 * (d > 4) for d in digits[-2::-2]]
    total = sum(digits[-1::-2]) + sum(doubled)
    return 13 <= len(digits) <= 19 and digits[0] in (3, 4, 5, 6) and len(set(digits)) > 2 and total % 10 == 0


def _is_iban(text: str) -> bool:
    """ISO 13616: the number of its letters and digits, first four last, is 1 modulo 97."""
    account = text.replace(" ", "")
    if not 15 <= len(account) <= 34:
        return False
    return int("".join(str(int(c, 36)) for c in account[4:] + account[:4])) % 97 == 1


def _is_phone_number(text: str) -> bool:
    return 9 <= sum(map(str.isdigit, text)) <= 15 and not _FICTIONAL_PHONE.search(text)


_PATTERNS: Mapping[Kind, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    "email": (
        re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,4}[A-Za-z]{2,18}\b"),
        lambda text: not _EXAMPLE_DOMAIN.search(text),
    ),
    "phone": (
        re.compile(
            r"(?<![\w.+/-])(?:\+[1-9]\d{0,2}[ .-]\(?\d{1,4}\)?(?:[ .-]?\d{2,4}){2,4}|\+[1-9]\d{10,14}"
            r"|\(\d{3}\) ?\d{3}[-.]\d{4}|[2-9]\d{2}([-.])[2-9]\d{2}\1\d{4})(?![\w-])"
        ),
        _is_phone_number,
    ),
    "ip_address": (
        re.compile(
            r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{1,4}(?::{1,2}[0-9A-Fa-f]{1,4}){2,7})(?![\w.:]*\w)"
        ),
        _is_public_address,
    ),
    "card": (
        re.compile(
            r"(?<![\w.-])\d{4}([ -]?)\d{4}\1\d{4}\1\d{1,7}(?![\w.-]*\w)|(?<![\w.-])3\d{3}([ -]?)\d{6}\2\d{5}(?!\w)"
        ),
        _is_card_number,
    ),
    "iban": (re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"), _is_iban),
}


class PiiSettings(Settings):
    """What is looked for, and what becomes of a topic that has it."""

    kind: Literal["pii"] = "pii"
    look_for: tuple[Kind, ...] = Field(get_args(Kind), min_length=1, description="what is looked for")
    reject: bool = Field(False, description="reject such topics instead of marking them")


class PiiCheck(TopicCheck[PiiSettings]):
    """Passes, or rejects, with `email`, `phone`, `ip_address`, `card`, `iban`."""

    name = "pii"

    def __call__(self, topic: Topic) -> tuple[Topic, Sequence[Verdict]]:
        """The topic as it was, and a finding for each kind in each text, with the first of that kind."""
        findings = [finding for text in texts_of(topic) for finding in self._findings(text)]
        return topic, verdicts_of(self.name, findings, reject=self._settings.reject)

    def _findings(self, text: TopicText) -> Iterator[Finding]:
        for kind in self._settings.look_for:
            pattern, is_valid = _PATTERNS[kind]
            matches = [match[0] for match in pattern.finditer(text.text[:_SCANNED_CHARS]) if is_valid(match[0])]
            if matches:
                yield Finding(kind, text.scope, f"{text.field} has {_masked(matches[0])}", float(len(matches)))


def _masked(text: str) -> str:
    """The first and last two characters."""
    return f"{text[:2]}{'*' * (len(text) - 4)}{text[-2:]}"
