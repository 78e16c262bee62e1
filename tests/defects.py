"""Defects that `seeded_defects.py` puts into the code, one at a time: for each some test must fail.

A defect replaces `old`, which stands once in its file, by `new`. `tests` names the files of the tier `make test` that
catch it.
"""

from typing import NamedTuple


class Defect(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: str


DEFECTS = (
    # boot
    Defect("a sentinel that stays off is replayed for ever", "boot/path.py",
           "elif verdict.final or played == rounds.count:", "elif verdict.final or played == rounds.count + 1:",
           "tests/test_boot.py"),
    Defect("replays of earlier rounds are forgotten", "boot/path.py",
           "samples += yield Replay(to_replay)", "samples = yield Replay(to_replay)", "tests/test_boot.py"),
    Defect("the mode require calibrates", "boot/path.py",
           'if self.given.settings.mode == "require":', 'if self.given.settings.mode == "never":',
           "tests/test_modes.py"),
    Defect("an audit moves a damaged entry aside", "boot/path.py",
           'if mode not in {"verify", "require"}:', "if mode:", "tests/test_modes.py"),
    Defect("curves that were refused count as installed", "boot/path.py",
           "return (yield from self._withdraw(error.reason, error.detail, agreed=True))", "return GO",
           "tests/test_boot.py"),
    Defect("an entry of other sizes is tried", "boot/keeper.py",
           "if problem := calibration.shortfall(plan, found.profile):", "if problem := None:", "tests/test_boot.py"),
    Defect("an unstable machine stores", "boot/keeper.py",
           "            if unstable:\n", "            if unstable and not unstable:\n",
           "tests/test_modes.py tests/test_history.py"),
    # curves
    Defect("costs that fell below the lower limit hold", "curves/sentinel.py",
           "if not limits.scale_low <= low <= high <= limits.scale_high:", "if not high <= limits.scale_high:",
           "tests/test_sentinel.py"),
    Defect("a moved shape holds", "curves/sentinel.py",
           "if not worst.loss_bound <= worst.allowed:", "if not worst.loss_bound <= 1:", "tests/test_sentinel.py"),
    Defect("a sentinel that ran eagerly counts", "curves/sentinel.py",
           "if not sample.full_graph and size <= profile.capture_limit:", "if size < 0:", "tests/test_sentinel.py"),
    Defect("one slow replay decides", "curves/sentinel.py",
           "verify_ms = median_low(sample.verify_ms for sample in replays)",
           "verify_ms = max(sample.verify_ms for sample in replays)", "tests/test_sentinel.py"),
    Defect("noise adds to the limit", "curves/sentinel.py",
           "return max(limits.max_regret, min(noise, limits.max_regret * (1 + WIDEST)))",
           "return limits.max_regret + noise", "tests/test_sentinel.py"),
    Defect("the largest size is not replayed", "curves/sentinel.py",
           "anchor, others = captured[-1], list(captured[:-1])", "anchor, others = captured[0], list(captured[1:])",
           "tests/test_sentinel.py"),
    Defect("anybody can make a verified profile", "curves/sentinel.py",
           "if verdict is not _VERDICT:", "if verdict is _VERDICT and evidence is None:", "tests/test_sentinel.py"),
    Defect("a noisy calibration is admitted", "curves/admission.py",
           "        or _noisy(points, thresholds.noise)\n", "", "tests/test_admission.py"),
    Defect("runs above the captured sizes price the drafter", "curves/calibration.py",
           "        if sample.full_graph:\n", "        if sample.requests:\n", "tests/test_calibration.py"),
    # ranks
    Defect("the leader does not wait for the last rank", "ranks/vote.py",
           "for rank in range(1, self.world):", "for rank in range(1, max(2, self.world - 1)):", "tests/test_ranks.py"),
    Defect("a rank in doubt calibrates", "ranks/vote.py",
           "        if self.bound:\n            raise VoteLost(f\"rank {self.rank} voted to go on and cannot learn",
           "        if self.bound == 2:\n            raise VoteLost(f\"rank {self.rank} in doubt",
           "tests/test_ranks.py"),
    Defect("a rank goes on without its vote", "ranks/vote.py",
           "if decision.course is not Course.CALIBRATE and not self.bound:", "if decision is None:",
           "tests/test_ranks.py"),
    Defect("ranks with other entries go on", "ranks/ballot.py",
           "if ballot.checksum != own.checksum:", "if ballot.checksum is own:", "tests/test_ranks.py"),
    Defect("a decision is overwritten", "ranks/distributed.py",
           'return bytes(self._call(lambda: self._store.compare_set(key, "", value.decode())))',
           "self._call(lambda: self._store.set(key, value.decode()))\n        return value",
           "tests/vllm/test_default_store.py"),
    # storage
    Defect("a store that its group may write is trusted", "storage/files.py",
           "writers = stat.S_IWOTH if trust_group else stat.S_IWOTH | stat.S_IWGRP", "writers = stat.S_IWOTH",
           "tests/test_store.py"),
    Defect("the entry is not on the disk when its name is", "storage/files.py",
           "            os.fsync(descriptor)\n", "", "tests/test_store.py"),
    Defect("a link is followed", "storage/files.py",
           "os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK", "os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK",
           "tests/test_store.py"),
    Defect("the checksum is not compared", "storage/entry.py",
           "if found != header.sha256:", "if found == header:", "tests/test_entry.py"),
    Defect("an entry of another fingerprint is taken", "storage/entry.py",
           "if digest is not None and own != digest:", "if digest is not None and own is None:", "tests/test_entry.py"),
    Defect("curves need not be the medians of their samples", "storage/entry.py",
           "if medians != entry.profile:", "if medians is None:", "tests/test_entry.py"),
    Defect("booleans and integers are one factor", "storage/fingerprint.py",
           "if value is None or type(value) is bool:", "if value is None or isinstance(value, int | float):",
           "tests/test_fingerprint.py"),
    Defect("a quarantine outlives the entry", "storage/history.py",
           "return 0 < after <= len(self.rejected) and self.rejected[-1].entry == entry",
           "return 0 < after <= len(self.rejected)", "tests/test_history.py tests/test_modes.py"),
    # reporting
    Defect("a missed boot keeps no factors", "boot/ending.py",
           "factors=None if hit else found.factors,", "factors=None,", "tests/test_boot.py"),
    # vllm
    Defect("the memory profiler's pass is taken for a boot", "vllm/seam/hook.py",
           'throw_away = kwargs.get("profile_only") or getattr(runner, "_warmcurve_profiling", False)',
           "throw_away = False", "tests/vllm/test_edge.py"),
    Defect("vLLM plans with the sentinels as samples", "vllm/seam/calibration.py",
           "timed, collector._timed = collector._timed, []  # noqa: SLF001", "timed = list(collector._timed)",
           "tests/vllm/test_sentinels.py tests/vllm/test_warm_boot.py"),
    Defect("vLLM's methods stay replaced", "vllm/seam/calibration.py",
           "            vars(self._manager).pop(name, None)\n", "            vars(self._manager).get(name)\n",
           "tests/vllm/test_edge.py"),
    Defect("an error of ours ends the boot", "vllm/seam/calibration.py",
           "        except Exception as error:  # noqa: BLE001  the adapter's edge\n            self._fail(error)\n"
           "            self._withdraw(describe_error(error))\n",
           "        except FloatingPointError as error:\n            self._fail(error)\n"
           "            self._withdraw(describe_error(error))\n", "tests/vllm/test_edge.py"),
    Defect("every release is known", "vllm/releases.py",
           "return tuple(release for release, own in KNOWN.items() if own == digests)", "return tuple(KNOWN)",
           "tests/vllm/test_edge.py"),
    Defect("the number of drafted tokens is no factor", "vllm/factors/declared.py",
           "lambda s: s.runner.num_speculative_steps),", "lambda s: 1),", "tests/vllm/test_factors.py"),
    Defect("a variable of tomorrow does not count", "vllm/factors/environment.py",
           "return name.startswith(PREFIXES) and name not in _LEFT_OUT and not has_form(name)", "return False",
           "tests/plugin/test_environment.py"),
    Defect("a field that nobody reviewed does not count", "vllm/factors/configuration.py",
           "if known is None or field.name not in known.left_out]", "if known and field.name not in known.left_out]",
           "tests/plugin/test_configuration.py"),
    Defect("a factor that is missing counts as null", "vllm/factors/declared.py",
           "if value is None and not factor.optional:", "if value is None and factor is None:",
           "tests/vllm/test_factors.py"),
)  # fmt: skip
