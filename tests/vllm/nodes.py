"""A server of two nodes, as on two machines: the real `vllm serve`, one rank on each, every node with its own cache.

leader, follower = nodes.on_loopback(tmp_path)
with nodes.serve(nodes.TENSOR_PARALLEL, leader, follower) as server:
    tokens = server.complete()
leader.report, follower.report      # what this boot wrote, or None
"""

import ctypes
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socket import AF_INET, socket
from typing import Any

import command_line
import engine
import pytest

from tests.vllm import planted, sessions

ROOT = Path(__file__).resolve().parent.parent.parent
SWITCH = "VLLM_ENABLE_ADAPTIVE_VERIFICATION_PROFILE_CACHE"
READY_S = 480.0
CLONE_NEWNET = 0x40000000

WITHOUT_PLUGIN = {"VLLM_PLUGINS": planted.PLUGIN}
SWITCHED_OFF = {SWITCH: "0"}

# On a build server namespaces that cannot be made are a failure: the promise is made for two machines.
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="making network namespaces needs root"
)


class NodeDied(Exception):
    """A node's process ended before it was told to."""


class Node:
    """One machine: where it is reached, how a process gets onto it, and what it keeps on its disk."""

    def __init__(self, name: str, directory: Path, address: str, interface: str, inside: int | None = None) -> None:
        self.name, self.address, self._inside = name, address, inside
        self.cache, self.log = directory / name / "cache", directory / name / "log"
        self.settings: dict[str, str] = {"VLLM_HOST_IP": address, "GLOO_SOCKET_IFNAME": interface}
        self._overlay: Path | None = None
        self._before: set[Path] = set()
        self.process: subprocess.Popen[bytes] | None = None
        self.cache.mkdir(parents=True)

    @property
    def store(self) -> Path:
        return self.cache / "adaptive_verification"

    @property
    def entries(self) -> list[Path]:
        return sorted(self.store.glob("v1/*.jsonl"))

    @property
    def report(self) -> dict[str, Any] | None:
        """What the latest boot reported here."""
        new = [path for path in self._reports() if path not in self._before]
        assert len(new) <= 1, new
        return json.loads(new[0].read_bytes()) if new else None

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _reports(self) -> list[Path]:
        return sorted(self.store.glob("reports/*.json"))

    def install_version(self, version: str) -> None:
        """Lay another release of warmcurve onto this node: the one under test, by another name."""
        import warmcurve

        self._overlay = self.cache.parent / "overlay"
        shutil.copytree(Path(warmcurve.__file__).parent, self._overlay / "warmcurve", dirs_exist_ok=True)
        file = self._overlay / "warmcurve" / "_version.py"
        file.write_text(file.read_text().replace(warmcurve.__version__, version))

    def start(self, arguments: Sequence[str]) -> None:
        self._before = set(self._reports())
        command = [*command_line.VLLM, *arguments]
        with self.log.open("wb") as log:
            self.process = sessions.start(
                command, self._environment(), self._enter(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _enter(self) -> tuple[str, ...]:
        return () if self._inside is None else ("nsenter", "--target", str(self._inside), "--net", "--uts", "--")

    def _environment(self) -> dict[str, str]:
        environment: dict[str, str] = command_line.environment(self.cache)
        for name in command_line.sentinel_limits.WIDE:
            # Every node's clock is scripted: the limits that users have by default must hold.
            environment.pop(name, None)
        info = self.cache / "alias" / "planted-1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
        (info / "entry_points.txt").write_text(
            f"[vllm.general_plugins]\n{planted.PLUGIN} = tests.vllm.planted:register\n"
        )
        path = [str(self._overlay)] if self._overlay else []
        environment["PYTHONPATH"] = os.pathsep.join([*path, environment["PYTHONPATH"], str(ROOT)])
        return environment | {"VLLM_LOGGING_COLOR": "0", "NO_COLOR": "1"} | self.settings

    def check(self) -> None:
        """Raise if the node's process has ended."""
        assert self.process is not None
        if (code := self.process.poll()) is not None:
            raise NodeDied(f"{self.name} ended with {code}")

    def request(self, path: str, port: int, body: Any = None) -> bytes:
        """The answer to a request that is made on this node."""

        def ask() -> bytes:
            data = None if body is None else json.dumps(body).encode()
            url = f"http://{self.address}:{port}{path}"
            headers = {"content-type": "application/json"}
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(urllib.request.Request(url, data, headers), timeout=60) as answer:
                return bytes(answer.read())

        # A thread of its own, as a thread stays in the network that it has entered.
        with ThreadPoolExecutor(1, initializer=self._enter_network) as thread:
            return thread.submit(ask).result()

    def _enter_network(self) -> None:
        if self._inside is not None:
            with Path(f"/proc/{self._inside}/ns/net").open() as network:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(network.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")


class Shape:
    """How two nodes share a model: the flags of `vllm serve` for each of them."""

    model: Path

    def flags(self, leader: Node, ports: Sequence[int]) -> tuple[list[str], list[str], list[str]]:
        """Of both nodes, of the leader, of the follower."""
        raise NotImplementedError


class TensorParallel(Shape):
    model = engine.MODELS / "target"

    def flags(self, leader: Node, ports: Sequence[int]) -> tuple[list[str], list[str], list[str]]:
        both = ["--tensor-parallel-size", "2", "--nnodes", "2"]
        both += ["--master-addr", leader.address, "--master-port", str(ports[0])]
        return both, ["--node-rank", "0"], ["--node-rank", "1"]


class ExpertsDataParallel(Shape):
    model = engine.MODELS / "moe"

    def flags(self, leader: Node, ports: Sequence[int]) -> tuple[list[str], list[str], list[str]]:
        both = ["--data-parallel-size", "2", "--data-parallel-size-local", "1"]
        both += ["--data-parallel-address", leader.address, "--data-parallel-rpc-port", str(ports[0])]
        return both, ["--api-server-count", "1"], ["--data-parallel-start-rank", "1"]


TENSOR_PARALLEL, EXPERTS_DATA_PARALLEL = TensorParallel(), ExpertsDataParallel()


class Server:
    def __init__(self, leader: Node, follower: Node, port: int) -> None:
        self.nodes, self._port = (leader, follower), port

    def complete(self, prompt: int = 0) -> list[int]:
        """The token ids that the server generates for one of the engine's prompts, greedily."""
        request = command_line.REQUEST | {
            "prompt": engine.PROMPTS[prompt]["prompt_token_ids"],
            "max_tokens": engine.SAMPLING["max_tokens"],
        }
        answer = json.loads(self.nodes[0].request("/v1/completions", self._port, request))
        return list(answer["choices"][0]["token_ids"])

    def wait_until_ready(self, timeout: float) -> None:
        """Raises `NodeDied` at once if a node ends, `TimeoutError` if none does."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for node in self.nodes:
                node.check()
            with suppress(OSError):
                self.nodes[0].request("/health", self._port)
                return
            time.sleep(0.25)
        raise TimeoutError(f"no server within {timeout} s")

    def stop(self) -> None:
        sessions.stop(*(node.process for node in self.nodes if node.process is not None))


@contextmanager
def serve(shape: Shape, leader: Node, follower: Node, ready_s: float = READY_S) -> Iterator[Server]:
    """A server that is ready. Nothing of it is left after the block; an error in it carries the ends of both logs."""
    web, *others = free_ports(3)
    both, of_leader, of_follower = shape.flags(leader, others)
    common = ["serve", str(shape.model), *command_line.arguments(), *both]
    common += ["--served-model-name", command_line.SERVED]
    server = Server(leader, follower, web)
    try:
        follower.start([*common, *of_follower, "--headless"])
        leader.start([*common, *of_leader, "--host", leader.address, "--port", str(web)])
        server.wait_until_ready(ready_s)
        yield server
    except BaseException as error:
        for node in server.nodes:
            error.add_note(f"--- end of {node.name}'s log\n{node.printed[-6000:]}")
        raise
    finally:
        server.stop()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago, on any address of this network."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket(AF_INET)) for _ in range(count)]
        for each in sockets:
            each.bind(("", 0))
        return [each.getsockname()[1] for each in sockets]


def on_loopback(directory: Path) -> tuple[Node, Node]:
    """Two nodes of this machine, with a cache each."""
    return Node("leader", directory, "127.0.0.1", "lo"), Node("follower", directory, "127.0.0.1", "lo")


@contextmanager
def on_two_machines(directory: Path) -> Iterator[tuple[Node, Node]]:
    """Two nodes with networks, addresses and host names of their own, joined by one cable.

    The namespaces belong to two processes and end with them: there is nothing to remove.
    """
    with ExitStack() as stack:
        names, addresses = ("leader", "follower"), ("10.77.0.1", "10.77.0.2")
        inside = [stack.enter_context(_machine(name)) for name in names]
        ends = [("cable", "netns", str(process)) for process in inside]
        _ip("link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
        for process, address in zip(inside, addresses, strict=True):
            for command in (("address", "add", f"{address}/24", "dev", "cable"), ("link", "set", "cable", "up")):
                _ip(*command, enter=("nsenter", "--target", str(process), "--net", "--"))
        leader, follower = (
            Node(name, directory, address, "cable", process)
            for name, address, process in zip(names, addresses, inside, strict=True)
        )
        yield leader, follower


@contextmanager
def _machine(name: str) -> Iterator[int]:
    """A process in a network and with a host name of its own."""
    live = f"hostname {name} && ip link set lo up && echo ready && exec sleep infinity"
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "sh", "-c", live]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError(f"no namespaces: {process.stderr.read().decode()}")
            yield process.pid
        finally:
            process.kill()


def _ip(*arguments: str, enter: tuple[str, ...] = ()) -> None:
    done = subprocess.run([*enter, "ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr}")
