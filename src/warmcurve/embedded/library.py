"""The source of the Python standard library: what the model was trained on, and where prompts come from."""

import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_LEFT_OUT = frozenset({"test", "tests", "idle_test", "encodings", "site-packages", "dist-packages", "__pycache__"})
_HELD_OUT_OF = 20


def files(directory: Path | None = None, *, held_out: bool) -> Iterator[Path]:
    """Source files in order; held out are those whose name hashes to one part in 20, and no training saw them."""
    root = directory or Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if not _LEFT_OUT.intersection(name.parts) and is_held_out(name.as_posix()) is held_out:
            yield path


def is_held_out(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % _HELD_OUT_OF == 0


def prompts(count: int, length: int, directory: Path | None = None) -> list[bytes]:
    """`count` different prompts of `length` bytes, each cut from a held-out file at a line's start."""
    texts = [path.read_bytes() for path in files(directory, held_out=True)]
    found: dict[bytes, None] = {}
    # Down the files in parallel, so that the first prompts come from different ones.
    for offset in range(0, max(map(len, texts), default=0), 3 * length):
        for text in texts:
            # From a third down: files begin alike, with a licence or a docstring.
            start = text.rfind(b"\n", 0, len(text) // 3 + offset + 1) + 1
            if start + length <= len(text):
                found[text[start : start + length]] = None
            if len(found) == count:
                return list(found)
    raise FileNotFoundError(f"the installed standard library has source for only {len(found)} of {count} prompts")
