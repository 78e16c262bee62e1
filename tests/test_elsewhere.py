"""A store that was copied one level too high or too deep is found, by names alone, and nothing of it is read."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from tests.faults import FaultySystem, raising
from tests.support import NO_FILE, A, B
from warmcurve.storage import elsewhere
from warmcurve.storage.elsewhere import misplaced

CACHE = Path("cache/vllm")
STORE = CACHE / "adaptive_verification"
PLACES = {
    "the entries in the store": STORE,
    "the entries in the cache's root": CACHE,
    "the directory of entries in the cache's root": CACHE / "v1",
    "the directory of entries in itself": STORE / "v1/v1",
    "the store in the store": STORE / "adaptive_verification/v1",
    "the store in the directory of entries": STORE / "v1/adaptive_verification/v1",
    "the store in the store, by another name": STORE / "backup/v1",
    "the entries in the store, by another name": STORE / "backup",
    "the cache in the store": STORE / "vllm/adaptive_verification/v1",
    "the cache's root one too deep": Path("cache/adaptive_verification/v1"),
    "the cache's root one too high": CACHE / "node/adaptive_verification/v1",
}


def _lay(directory: Path, name: str = A) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.jsonl"
    path.touch()
    return path


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("own", [True, False])
def test_a_copy_at_the_wrong_level_is_found(tmp_path: Path, place: str, own: bool):
    """Whether or not the store holds entries of its own; where it lies is told in full, and nothing else is."""
    if own:
        _lay(tmp_path / STORE / "v1", B)
    _lay(tmp_path / PLACES[place])
    assert misplaced(tmp_path / STORE / "v1") == (tmp_path / PLACES[place],)


def test_what_lies_where_it_belongs_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Neither the entries themselves, by whatever path they are named, nor other stores in other caches."""
    _lay(tmp_path / STORE / "v1")
    _lay(tmp_path / "cache/another/adaptive_verification/v1")
    (tmp_path / STORE / "reports").mkdir()
    (tmp_path / STORE / "reports/20300101T000000.000Z-host-1-abcd.json").touch()
    for name in (f"{A}.jsonl.bad-1234", f"{A[1:]}.jsonl", f"{A}.json", "\udcff.jsonl"):
        (tmp_path / STORE / name).touch()
    (tmp_path / CACHE / "v1").symlink_to(tmp_path / STORE / "v1")
    monkeypatch.chdir(tmp_path / STORE)
    for entries in (tmp_path / STORE / "v1", Path("v1"), Path("../adaptive_verification/v1")):
        assert misplaced(entries) == ()


def test_no_more_than_three_are_told(tmp_path: Path):
    """The nearest first."""
    for place in PLACES.values():
        _lay(tmp_path / place)
    assert misplaced(tmp_path / STORE / "v1") == (
        tmp_path / STORE,
        tmp_path / CACHE / "v1",
        tmp_path / STORE / "adaptive_verification/v1",
    )


def test_the_search_ends_when_there_is_enough(tmp_path: Path):
    """A file system that answers slowly holds up no boot."""
    _lay(tmp_path / STORE)
    _lay(tmp_path / CACHE / "v1")
    answers = iter([False, True])
    assert misplaced(tmp_path / STORE / "v1", lambda: next(answers)) == (tmp_path / STORE,)
    assert misplaced(tmp_path / STORE / "v1", lambda: True) == ()


def test_few_names_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """However many files and directories lie there: 256 names of a directory, and 32 directories in one."""
    for number in range(400):
        (tmp_path / STORE / f"directory-{number}").mkdir(parents=True)
        (tmp_path / CACHE / f"directory-{number}").mkdir()
    opened, read, scandir = list[Path](), list[str](), os.scandir

    class Counting:
        def __init__(self, directory: Path) -> None:
            opened.append(directory)
            self._listed = scandir(directory)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._listed.close()

        def __iter__(self) -> Self:
            return self

        def __next__(self) -> "os.DirEntry[str]":
            found = next(self._listed)
            read.append(found.name)
            return found

    monkeypatch.setattr(os, "scandir", Counting)
    assert misplaced(tmp_path / STORE / "v1") == ()
    assert len(opened) < 150
    assert len(read) <= 4 * 256


@pytest.mark.parametrize("kind", NO_FILE)
def test_what_is_no_directory_is_passed_over(tmp_path: Path, kind: str):
    """Neither opened nor waited for, in the place of a directory or of an entry's name; a name alone is told."""
    (tmp_path / STORE).mkdir(parents=True)
    NO_FILE[kind](tmp_path / STORE / "v1")
    NO_FILE[kind](tmp_path / CACHE / "v1")
    assert misplaced(tmp_path / STORE / "v1") == ()
    NO_FILE[kind](tmp_path / STORE / f"{A}.jsonl")
    assert misplaced(tmp_path / STORE / "v1") == (tmp_path / STORE,)


def _gone(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = directory / "gone"
    inner.mkdir()
    monkeypatch.chdir(inner)
    inner.rmdir()


def _nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)


@pytest.mark.parametrize("place", [_gone, _nothing])
def test_nothing_near_is_no_error(tmp_path: Path, place: Callable[..., None], monkeypatch: pytest.MonkeyPatch):
    """Also where there is no working directory that a relative path could be of."""
    place(tmp_path, monkeypatch)
    assert misplaced(Path("v1")) == ()
    assert misplaced(Path("/v1")) == ()


class _System(FaultySystem):
    def __getattr__(self, name: str):
        return self._counted(name, os.scandir) if name == "scandir" else super().__getattr__(name)

    def __enter__(self) -> Self:
        self._patch.setattr(elsewhere, "os", self)
        super().__enter__()
        return self


@pytest.mark.parametrize("lasting", [False, True])
def test_no_failing_call_escapes(tmp_path: Path, lasting: bool):
    """With the n-th of the system's calls failing, for every n, less is found and nothing is raised."""
    _lay(tmp_path / STORE / "backup/v1")
    nth, reached, seen = 0, True, set()
    while reached:
        nth += 1
        with _System(nth, raising(5), lasting=lasting) as system:
            seen.add(misplaced(tmp_path / STORE / "v1"))
        reached = system.reached
    assert seen == {(), (tmp_path / STORE / "backup/v1",)}
