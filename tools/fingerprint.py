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

A boot finds its entry by the SHA-256 of its **factors**. A factor is anything that can change the cost of a dummy run
of the calibration, or which dummy runs are planned. One factor too few gives a boot the wrong curve. One too many only
costs a calibration. So a setting counts if in doubt. An entry holds its factors: `warmcurve show` prints them.

The configuration and the environment are **opt-out**. Each field of vLLM's configuration and each of its environment
variables was reviewed, for {_RELEASES[0]} to {_RELEASES[-1]}. This page lists what is left out, with its kind and its
reason. A field or a variable that no review knows counts. So those of a newer release count.

Values are text, integers, booleans, null, lists and maps. Any other value is replaced by a stable name, never by
`str(object)`: a class or a function by its qualified name, an enumeration by its member's name, a floating point number
by its shortest exact text. A function without a name (a lambda among `hf_overrides`) cannot be told from another one.
Such a boot neither loads nor stores.

All ranks of one world have the same factors. No rank, device index, address or host is among them.

This page is written by `tools/fingerprint.py` from `warmcurve.vllm`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_factors(), *_kinds(), *_configuration(), *_environment()])


def _factors() -> Iterator[str]:
    yield "## Factors\n"
    yield "If a factor cannot be read, the boot neither loads nor stores (`factor_unknown`, with its name). A factor"
    yield "that is marked *optional* may be null, because an engine may lack it. The boot adds `plan`: the sizes to"
    yield "time, the captured sizes, and how often each size is timed.\n"
    yield "| factor | what is read | why it counts |\n|---|---|---|"
    for factor in FACTORS:
        mark = " *optional*" if factor.optional else ""
        yield f"| `{factor.name}`{mark} | {factor.where} | {factor.why} |"
    yield "\n`runtime.packages` has these packages, if they are installed:\n"
    yield _names(packages.COUNTED)
    yield "vLLM asks for these packages too. They are left out:\n"
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
    yield "A variable counts if its name begins like one of these families, unless it is excluded by name or by form."
    yield "vLLM's own variables were reviewed one by one.\n"
    yield "| family | names beginning with |\n|---|---|"
    yield from (f"| {what} | {_quoted(prefixes)} |" for what, prefixes in FAMILIES.items())
    yield "\nThese single variables count too:\n"
    yield _names(SINGLE)
    yield f"### Variables of vLLM that count\n\nEach begins with `{OURS}`.\n"
    yield _names(sorted(name.removeprefix(OURS) for name in COUNTED))
    yield "### Variables that count by the content of what they name\n"
    yield "What counts is the SHA-256 of the file, or of each file of the folder. The path does not count. If there is"
    yield "no such file, the factor is null.\n"
    yield _names((*BY_CONTENT, *(f"{prefix}*" for prefix in LISTS_OF_FILES)))
    yield "These count by the names of the folder's files:\n"
    yield _names(BY_NAMES)
    yield "### Variables that are excluded by name\n"
    yield from _table(EXCLUDED)
    yield "### Variables outside the families that vLLM reads\n"
    yield "None of them counts. A variable with one of the forms below does not count either.\n"
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
