"""Text that a terminal only shows: what was read may be anything, with escape sequences in it."""


def printable(text: str) -> str:
    """In one line, as it is but for what is not printable, which is escaped."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
