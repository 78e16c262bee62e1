"""Processes that start others, and an end to all of them: a session each, which vLLM's processes never leave."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# A follower's worker waits for its leader, and vLLM kills it after 9 s: no need to wait for that.
STOPPING = ((signal.SIGTERM, 4.0), (signal.SIGKILL, 20.0))


def start(
    command: Sequence[str], environment: Mapping[str, str], enter: Sequence[str] = (), **options: Any
) -> subprocess.Popen[bytes]:
    """It is told to end when the test run ends, even if that was killed. `enter` leads into its namespaces."""
    whole = [*enter, "setpriv", "--pdeathsig", "TERM", *command]
    return subprocess.Popen(whole, env=environment, start_new_session=True, **options)


def living(process: subprocess.Popen[bytes]) -> list[int]:
    """What still runs of the session that this process leads or led."""
    process.poll()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # After the name, which may hold anything: state, parent, group, session.
                state, _, _, session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(session) == process.pid and state not in "XZ":
                    found.append(int(entry.name))
    return found


def stop(*processes: subprocess.Popen[bytes]) -> None:
    """End these sessions, all at once: the nodes of a server do not end by themselves when the others do."""
    for number, patience in STOPPING:
        for process in processes:
            send(process, number)
        deadline = time.monotonic() + patience
        while left := [pid for process in processes for pid in living(process)]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            for process in processes:
                process.wait()
            return
    raise AssertionError(f"processes outlive SIGKILL: {left}")


def send(process: subprocess.Popen[bytes], number: int) -> None:
    """Signal every process of the session but Python's resource trackers.

    They end by themselves after the others, once they have removed what those left in /dev/shm.
    """
    for pid in living(process):
        with suppress(OSError):
            if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, number)
