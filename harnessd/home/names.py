"""By which name is a skill or subagent called, given the name of its folder or file?"""

import hashlib
import unicodedata

from harnessd.ids import NAME, slug


def callable_name(text: str) -> str:
    """The one name for `text`, whatever its case, spaces and Unicode form: `Wrong_Name` → `wrong-name`.

    Letters of any script are kept (`技能`); a name without letters or digits (`🚀`) becomes `x-<hash>`.
    Names that differ only in case or in composed or decomposed accents are one name.
    """
    if NAME.fullmatch(text):
        return text
    if text.isascii():
        return slug(text) or _hashed(text)
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    kept = "".join(character if _is_part(character) else " " for character in folded)
    name = "-".join(kept.split())
    while len(name.encode()) > 128:
        name = name[:-1].rstrip("-")
    return name or _hashed(folded)


def _is_part(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in {"Mn", "Mc"}


def _hashed(text: str) -> str:
    return "x-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
