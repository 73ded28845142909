"""A key, and the ways in which a reply may spell it."""

import base64
import codecs
import html
import json
import quopri
from urllib.parse import quote

KEY = "sk-canary/0b7f+3e55&aa_Zq.9"


def percent(text: str) -> str:
    """Each character as its percent escape."""
    return "".join(f"%{ord(c):02x}" for c in text)


def escaped(text: str) -> str:
    """Each character as JSON's escape."""
    return "".join(f"\\u{ord(c):04x}" for c in text)


SPELLINGS = {
    "plain": KEY,
    "JSON's slash": KEY.replace("/", r"\/"),
    "JSON's escapes": escaped(KEY),
    "JSON's escapes in capitals": escaped(KEY).replace("\\u00", "\\U00").upper().replace("\\U", "\\u"),
    "JSON in JSON": json.dumps(json.dumps(escaped(KEY)))[3:-3],
    "backslashes": "".join(c if c.isalnum() else f"\\{c}" for c in KEY),
    "hex escapes": "".join(f"\\x{ord(c):02x}" for c in KEY),
    "octal escapes": "".join(f"\\{ord(c):03o}" for c in KEY),
    "braces": "".join(f"\\u{{{ord(c):x}}}" for c in KEY),
    "percent": quote(KEY, safe=""),
    "percent in small letters": quote(KEY, safe="").lower().replace(KEY[:9].lower(), KEY[:9]).replace("_zq", "_Zq"),
    "percent for all": percent(KEY),
    "percent twice": quote(quote(KEY, safe=""), safe=""),
    "HTML": html.escape(KEY),
    "HTML twice": html.escape(html.escape(KEY)),
    "HTML by number": "".join(f"&#{ord(c)};" for c in KEY),
    "HTML by hex": "".join(f"&#x{ord(c):X};" for c in KEY),
    "HTML by name": KEY.replace("&", "&amp;").replace("/", "&sol;").replace("+", "&plus;").replace("_", "&lowbar;"),
    "quoted-printable": quopri.encodestring(KEY.encode(), quotetabs=True).decode().replace("-", "=2D"),
    "percent in JSON's escapes": escaped(quote(KEY, safe="")),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of a header": base64.b64encode(f"Bearer {KEY}, and more".encode()).decode(),
    "base64 of a pair": base64.b64encode(f"u:{KEY}".encode()).decode(),
    "base64 with JSON's slashes": base64.b64encode(f"?>{KEY}?>".encode()).decode().replace("/", r"\/"),
    "url-safe base64": base64.urlsafe_b64encode(f"?{KEY}".encode()).decode().rstrip("="),
    "base32": base64.b32encode(f"abc{KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
    "hex in capitals": KEY.encode().hex().upper(),
    "from behind": KEY[::-1],
    "rot13": codecs.encode(KEY, "rot13"),
}  # fmt: skip
