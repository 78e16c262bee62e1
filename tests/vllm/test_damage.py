"""Entries and stores in every bad state: vLLM boots each time, and the report says what was met."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vllm.booting import STOCK_RUNS, TOKENS, Booted, Machine, tampered

pytestmark = pytest.mark.usefixtures("runner")


def flipped(data: bytes) -> bytes:
    return data[:-40] + bytes([data[-40] ^ 1]) + data[-39:]


def foreign(data: bytes) -> bytes:
    def change(payload: dict[str, Any]) -> None:
        payload["factors"]["speculation"]["draft_tokens"] = 5

    return tampered(data, change)


def not_a_number(data: bytes) -> bytes:
    def change(payload: dict[str, Any]) -> None:
        payload["profile"]["verify"]["costs_ms"][0] = float("nan")

    return tampered(data, change)


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda data: data[: len(data) // 2], "entry_truncated"),
    "empty": (lambda data: b"", "entry_truncated"),
    "one bit flipped": (flipped, "entry_checksum"),
    "payload of another digest": (foreign, "entry_foreign"),
    "future schema": (lambda data: data.replace(b'"schema":1', b'"schema":2', 1), "entry_schema"),
    "a NaN": (not_a_number, "entry_invalid"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_replaced(warm: Machine, recorded: Booted, damage: str) -> None:
    """A damaged entry costs this boot a calibration; the next one is warm again, and the damage is kept aside."""
    spoil, reason = DAMAGE[damage]
    path = warm.lay(recorded.entry.name, spoil(recorded.data))
    booted = warm.calibrate()
    assert booted.words == ("recorded", reason)
    assert booted.runs == STOCK_RUNS
    assert booted.tables == recorded.tables
    assert booted.tokens == TOKENS
    aside = list(path.parent.glob("*.bad-*"))
    assert [kept.read_bytes() for kept in aside] == ([] if damage == "future schema" else [spoil(recorded.data)])
    assert path.read_bytes().splitlines()[1].startswith(b'{"factors"')
    assert warm.calibrate().words == ("reused", None)


def test_a_directory_in_the_entrys_place(machine: Machine, recorded: Booted) -> None:
    """A directory under the entry's name is moved aside, with what it holds, and the entry takes its place."""
    path = machine.lay("placeholder", b"").with_name(recorded.entry.name)
    path.mkdir()
    (path / "kept").write_text("by somebody")
    booted = machine.calibrate()
    assert booted.words == ("recorded", "entry_unreadable")
    assert path.is_file()
    (aside,) = path.parent.glob("*.bad-*")
    assert (aside / "kept").read_text() == "by somebody"


# On a build server what cannot be mounted is a failure: these are promises, and nobody reads a skip.
needs_mount = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="mounting a file system needs root"
)


@pytest.fixture
def mounted(machine: Machine) -> Iterator[Callable[[str], None]]:
    """Mounts a real tmpfs where vLLM's cache lies, with these options; again to remount."""
    machine.cache.mkdir()

    def mount(options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(machine.cache)], check=True)

    yield mount
    subprocess.run(["umount", str(machine.cache)], check=True)


@needs_mount
def test_a_read_only_cache(machine: Machine, recorded: Booted, mounted: Callable[[str], None]) -> None:
    """A read-only cache is read all the same; where it lacks the entry, vLLM calibrates and nothing is stored."""
    mounted("size=1m")
    machine.lay("placeholder", b"")
    mounted("remount,ro")
    cold = machine.calibrate()
    assert cold.report is None
    assert cold.runs == STOCK_RUNS
    assert cold.tokens == TOKENS
    assert "unrecorded reason=store_read_only" in cold.log[0]
    mounted("remount,rw")
    machine.lay(recorded.entry.name, recorded.data)
    mounted("remount,ro")
    hit = machine.calibrate()
    assert len(hit.runs) == 2
    assert hit.log[0].startswith("warmcurve: reused")
    assert hit.tables == recorded.tables


@needs_mount
def test_a_full_disk(machine: Machine, mounted: Callable[[str], None]) -> None:
    """On a full disk vLLM calibrates and boots; nothing half-written stays."""
    mounted("size=64k")
    machine.lay("placeholder", b"")
    filler = machine.cache / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(machine.cache).free))
    booted = machine.calibrate()
    assert "unrecorded reason=store_full" in booted.log[0]
    assert booted.runs == STOCK_RUNS
    assert booted.tokens == TOKENS
    assert [path.name for path in (machine.store / "v1").iterdir()] == ["placeholder"]


def test_a_cache_root_that_cannot_be_made(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where vLLM's cache root is missing and cannot be created, vLLM boots and the log names the path."""
    (tmp_path / "file").write_text("in the way")
    machine.cache = tmp_path / "file" / "cache"
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(machine.cache))
    booted = machine.calibrate()
    assert "unrecorded reason=store_unavailable" in booted.log[0]
    assert str(machine.cache) in booted.log[0]
    assert booted.runs == STOCK_RUNS
    assert booted.tokens == TOKENS


def test_a_store_that_others_may_write(warm: Machine, recorded: Booted) -> None:
    """A store open to other users is neither read nor written, and the log says what to do."""
    warm.store.chmod(0o777)
    booted = warm.calibrate()
    assert "unrecorded reason=store_unsafe" in booted.log[0]
    assert "mode 0700" in booted.log[0]
    assert booted.runs == STOCK_RUNS
    assert recorded.entry.read_bytes() == recorded.data
