"""Write docs/fingerprint.md from the declarations: every factor, where it is read, why it counts, and every exclusion.

usage: python tools/fingerprint.py
"""

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from warmcurve.vllm.factors import configuration, environment, packages
from warmcurve.vllm.factors.declared import FACTORS
from warmcurve.vllm.releases import KNOWN
from warmcurve.vllm.reviewed.review import KINDS, Exclusion
from warmcurve.vllm.reviewed.sections import SECTIONS
from warmcurve.vllm.reviewed.variables import (
    BY_CONTENT,
    BY_NAMES,
    COUNTED,
    EXCLUDED,
    FAMILIES,
    FORMS,
    LISTS_OF_FILES,
    OURS,
    SINGLE,
    UNRELATED,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "fingerprint.md"
_RELEASES = sorted(KNOWN)
_HEAD = f"""\
# What the fingerprint of a vLLM boot is made of

An entry is found by the SHA-256 of its **factors**: everything that can change what a dummy run of the calibration
costs, or which dummy runs are planned. A factor too few would hand a boot the wrong curve, a factor too many only costs
a calibration. So in doubt a setting counts. The factors of an entry are in it: `warmcurve show` prints them.

The configuration and the environment are **opt-out**. Each field of each class of vLLM's configuration was reviewed,
and each of its environment variables, for {_RELEASES[0]} to {_RELEASES[-1]}. What is left out is listed here with its
kind and its reason. A field or a variable of a newer release, which no review knows, counts.

Values are text, integers, truth values, null, lists and maps. Of anything else the name counts, never the text that
Python makes of an object: a class or a function by its qualified name, an enumeration by its member's name, a floating
point number by its shortest exact text. A function without a name, such as a lambda among `hf_overrides`, cannot be
told from another, so such a boot neither loads nor stores.

All ranks of one world have the same factors: no rank, device index, address or host is among them.

This page is written by `tools/fingerprint.py` from `warmcurve.vllm`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_factors(), *_kinds(), *_configuration(), *_environment()])


def _factors() -> Iterator[str]:
    yield "## Factors\n"
    yield "One that cannot be read means: neither load nor store (`factor_unknown`, with its name). Those marked"
    yield "*optional* may be null: an engine may well lack them. To these the boot adds `plan`: the sizes to time, the"
    yield "captured ones, and how often each is timed.\n"
    yield "| factor | what is read | why it counts |\n|---|---|---|"
    for factor in FACTORS:
        mark = " *optional*" if factor.optional else ""
        yield f"| `{factor.name}`{mark} | {factor.where} | {factor.why} |"
    yield "\nThe packages of `runtime.packages`, as far as they are installed:\n"
    yield _names(packages.COUNTED)
    yield "Left out, though vLLM asks for them:\n"
    yield from _table(packages.EXCLUDED)


def _kinds() -> Iterator[str]:
    yield "## Kinds of exclusions\n"
    yield "| kind | meaning |\n|---|---|"
    yield from (f"| {kind} | {meaning} |" for kind, meaning in KINDS.items())
    yield ""


def _configuration() -> Iterator[str]:
    yield f"## `{configuration.NAME}`: vLLM's configuration, class by class\n"
    for section in SECTIONS.values():
        yield f"### `{section.name}`\n"
        yield f"Counts: {section.why}.\n"
        yield _names(section.counts)
        yield from _table(section.excluded)


def _environment() -> Iterator[str]:
    yield f"## `{environment.NAME}`: environment variables\n"
    yield "A variable counts if its name begins as one of these families, unless it is excluded by name or by form."
    yield "vLLM's own were reviewed one by one.\n"
    yield "| family | names beginning with |\n|---|---|"
    yield from (f"| {what} | {_quoted(prefixes)} |" for what, prefixes in FAMILIES.items())
    yield "\nThese count as well, alone:\n"
    yield _names(SINGLE)
    yield f"### Variables of vLLM that count\n\nEach begins with `{OURS}`.\n"
    yield _names(sorted(name.removeprefix(OURS) for name in COUNTED))
    yield "### Variables that count by the content of what they name\n"
    yield "The SHA-256 of the file, or of each file of the folder, not the path; null where nothing is.\n"
    yield _names((*BY_CONTENT, *(f"{prefix}*" for prefix in LISTS_OF_FILES)))
    yield "By the names of the folder's files alone:\n"
    yield _names(BY_NAMES)
    yield "### Variables that are excluded by name\n"
    yield from _table(EXCLUDED)
    yield "### Variables outside the families that vLLM reads\n"
    yield "None of them counts, nor one that has a form of those below.\n"
    yield from _table(UNRELATED)
    yield "### Forms of names that are excluded\n"
    yield "| kind | form | why |\n|---|---|---|"
    for form in FORMS:
        pattern = form.pattern.pattern.replace("|", "\\|")
        yield f"| {form.kind} | `{pattern}` | {form.why} |"
    yield ""


def _table(exclusions: Iterable[Exclusion]) -> Iterator[str]:
    rows = [f"| {each.kind} | {_quoted(each.names)} | {each.why} |" for each in exclusions]
    if rows:
        yield "\n".join(["| left out: kind | names | why |", "|---|---|---|", *rows, ""])


def _names(names: Iterable[str]) -> str:
    return textwrap.fill(_quoted(names), 120, break_on_hyphens=False) + "\n"


def _quoted(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(page())
