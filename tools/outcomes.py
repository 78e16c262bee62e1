"""Write docs/outcomes.md from the vocabulary. So the headings of the page are the words of the log.

usage: python tools/outcomes.py
"""

from pathlib import Path

from warmcurve.outcome import MEANINGS, OUTCOMES, Outcome, Reason

PAGE = Path(__file__).resolve().parent.parent / "docs" / "outcomes.md"
_GROUPS = (
    ("No stored curve to use", Reason.ABSENT),
    ("A stored curve that was rejected", Reason.SENTINEL_MISSING),
    ("A calibration that was not stored", Reason.FACTOR_UNKNOWN),
    ("Ranks that could not go on together", Reason.RANKS_DIFFER),
    ("What the mode asks for", Reason.SWITCHED_OFF),
    ("warmcurve took no part, or could not finish", Reason.NOTHING_CAPTURED),
)
_HEAD = """\
# Outcomes and reasons

Every boot ends in exactly one **outcome**. A **reason** says what went other than planned. It is null after a hit
(`reused`) and after a first boot with nothing stored (`recorded`). A report also has `missed`: why no stored curve was
used. `missed` and the reason are the same word, unless nothing could be stored: then the reason says why not. The log
line, the boot report, `warmcurve ls` and `warmcurve verify` use these words.

This page is written by `tools/outcomes.py` from `warmcurve.outcome`.
"""


def page() -> str:
    """The whole page."""
    starts = {first: title for title, first in _GROUPS}
    parts = [_HEAD, "## Outcomes\n"]
    parts += [f"### `{outcome}`\n\n{OUTCOMES[outcome]}\n" for outcome in Outcome]
    for reason in Reason:
        if title := starts.get(reason):
            parts.append(f"## {title}\n")
        meaning = MEANINGS[reason]
        parts.append(f"### `{reason}`\n\n{meaning.text}\n\n*What to do.* {meaning.remedy}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
