"""How a boot ended, and why: the closed vocabulary of the whole project.

Every boot ends in exactly one `Outcome`. A `Reason` says what went other than planned. It is `None` after a hit
(`reused`) and after a first boot with nothing stored (`recorded`). The same words are the field of the log line, the
label of a metric, the column of the command line and the heading in `docs/outcomes.md`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Outcome(StrEnum):
    REUSED = "reused"
    RECORDED = "recorded"
    UNRECORDED = "unrecorded"


OUTCOMES: Final[Mapping[Outcome, str]] = {
    Outcome.REUSED: "The sentinels confirmed the stored curves, and the engine uses them. No calibration ran.",
    Outcome.RECORDED: "The engine calibrated in full, and the result was stored for the next boot.",
    Outcome.UNRECORDED: "No stored curves were used, and nothing was stored. The engine calibrated as it does without "
    "warmcurve. Or it did not start to serve: it failed, it was told to end, or the mode `require` stopped it.",
}
"""What each outcome means."""


class Step(StrEnum):
    """Where a boot is on its path. The report of an unforeseen error names it."""

    FINGERPRINT = "fingerprint"
    GET = "get"
    DECODE = "decode"
    VOTE = "vote"
    SENTINEL = "sentinel"
    INSTALL = "install"
    CALIBRATE = "calibrate"
    PUT = "put"
    REPORT = "report"


class Reason(StrEnum):
    # No stored curve to use.
    ABSENT = "absent"
    ENTRY_UNREADABLE = "entry_unreadable"
    ENTRY_TOO_LARGE = "entry_too_large"
    ENTRY_TRUNCATED = "entry_truncated"
    ENTRY_MALFORMED = "entry_malformed"
    ENTRY_CHECKSUM = "entry_checksum"
    ENTRY_SCHEMA = "entry_schema"
    ENTRY_INVALID = "entry_invalid"
    ENTRY_FOREIGN = "entry_foreign"
    ENTRY_INCOMPLETE = "entry_incomplete"
    ENTRY_EXPIRED = "entry_expired"
    ENTRY_QUARANTINED = "entry_quarantined"
    # A stored curve that the sentinels or the engine rejected.
    SENTINEL_MISSING = "sentinel_missing"
    SENTINEL_NOT_FULL_GRAPH = "sentinel_not_full_graph"
    SENTINEL_OFF_GRID = "sentinel_off_grid"
    SENTINEL_SCALE = "sentinel_scale"
    SENTINEL_SHAPE = "sentinel_shape"
    INSTALL_REFUSED = "install_refused"
    # A calibration that could not be stored.
    FACTOR_UNKNOWN = "factor_unknown"
    FACTOR_INVALID = "factor_invalid"
    CALIBRATION_INVALID = "calibration_invalid"
    CALIBRATION_COLD = "calibration_cold"
    CALIBRATION_NOISY = "calibration_noisy"
    CALIBRATION_FLAT = "calibration_flat"
    CALIBRATION_BENT = "calibration_bent"
    MACHINE_UNSTABLE = "machine_unstable"
    MACHINES_DIFFER = "machines_differ"
    STORE_UNSAFE = "store_unsafe"
    STORE_READ_ONLY = "store_read_only"
    STORE_FULL = "store_full"
    STORE_CANNOT_RENAME = "store_cannot_rename"
    STORE_UNAVAILABLE = "store_unavailable"
    # Ranks that could not go on together.
    RANKS_DIFFER = "ranks_differ"
    RANK_ABSENT = "rank_absent"
    VOTE_FAILED = "vote_failed"
    VOTE_UNAVAILABLE = "vote_unavailable"
    VOTE_LOST = "vote_lost"
    # What the mode asks for.
    SWITCHED_OFF = "switched_off"
    MODE_RECORD = "mode_record"
    MODE_VERIFY = "mode_verify"
    CURVES_REQUIRED = "curves_required"
    # warmcurve stood aside.
    NOTHING_CAPTURED = "nothing_captured"
    ENGINE_UNKNOWN = "engine_unknown"
    SETTINGS_INVALID = "settings_invalid"
    ENGINE_FAILED = "engine_failed"
    BOOT_INTERRUPTED = "boot_interrupted"
    INTERNAL_ERROR = "internal_error"


TURNED_DOWN: Final = frozenset(
    {
        Reason.SENTINEL_MISSING,
        Reason.SENTINEL_NOT_FULL_GRAPH,
        Reason.SENTINEL_OFF_GRID,
        Reason.SENTINEL_SCALE,
        Reason.SENTINEL_SHAPE,
        Reason.INSTALL_REFUSED,
    }
)
"""An entry was tried and rejected."""
PLANNED: Final = frozenset({Reason.ABSENT, Reason.MODE_RECORD})
"""Reasons for a boot that recorded as planned: nothing went wrong."""


class Meaning(NamedTuple):
    """What a reason means, and what a person can do about it."""

    text: str
    remedy: str


MEANINGS: Final[Mapping[Reason, Meaning]] = {
    Reason.ABSENT: Meaning(
        "No entry is stored for this fingerprint.",
        "Nothing. The first boot of a configuration calibrates and stores its curves.",
    ),
    Reason.ENTRY_UNREADABLE: Meaning(
        "The file with the entry's name cannot be read. It is a directory, a pipe or a link, it has no read "
        "permission, or the file system answered with an error twice.",
        "Look at the path. Remove what does not belong there, or check the file system.",
    ),
    Reason.ENTRY_TOO_LARGE: Meaning(
        "The entry is larger than any entry can be, so it was not parsed.",
        "Find out who wrote it. A boot that finds it moves it aside (`*.bad-…`) and calibrates.",
    ),
    Reason.ENTRY_TRUNCATED: Meaning(
        "The entry ends before the length that its header declares.",
        "Nothing. A boot that finds it moves it aside and calibrates. If this happens again, something other than "
        "warmcurve copies files into the store.",
    ),
    Reason.ENTRY_MALFORMED: Meaning(
        "The entry does not consist of a header line and a payload line of JSON.",
        "Nothing. A boot that finds it moves it aside and calibrates.",
    ),
    Reason.ENTRY_CHECKSUM: Meaning(
        "The payload does not have the checksum in the header. It was altered or damaged.",
        "Nothing. A boot that finds it moves it aside and calibrates. If this happens again, check the disk.",
    ),
    Reason.ENTRY_SCHEMA: Meaning(
        "The entry was written in a format or schema that this version does not know.",
        "Nothing. A boot that finds it replaces it. To avoid this, use one version of warmcurve for each store.",
    ),
    Reason.ENTRY_INVALID: Meaning(
        "The payload breaks a rule of entries: a wrong type, an unknown or repeated field, a number that is not "
        "finite, sizes that do not increase, or curves that are not the medians of their samples.",
        "Nothing. A boot that finds it moves it aside and calibrates.",
    ),
    Reason.ENTRY_FOREIGN: Meaning(
        "The entry belongs to another fingerprint: its factors do not hash to the file's name.",
        "Do not rename entries. A boot that finds it moves it aside and calibrates.",
    ),
    Reason.ENTRY_INCOMPLETE: Meaning(
        "The entry does not have a sample for every run of this engine's calibration.",
        "Nothing. A boot that finds it replaces it.",
    ),
    Reason.ENTRY_EXPIRED: Meaning(
        "The entry is older than `WARMCURVE_MAX_AGE` allows, or it does not say when it was recorded.",
        "Nothing. A boot that finds it calibrates and replaces it.",
    ),
    Reason.ENTRY_QUARANTINED: Meaning(
        "This machine rejected the entry several times in a row (`WARMCURVE_QUARANTINE`), and no calibration has "
        "replaced it since. So the entry was not tried again. Other machines still try it, and so does the mode "
        "`require`.",
        "`warmcurve show` lists the rejections. The reports say why no calibration was stored. The quarantine ends "
        "when a calibration is stored, or when this machine's file under `history/` is deleted.",
    ),
    Reason.SENTINEL_MISSING: Meaning(
        "A sentinel replay gave no timing, or one that is not a positive finite number.",
        "Nothing, if this is rare. If it happens again, report it with the boot report: the engine may time steps "
        "differently now.",
    ),
    Reason.SENTINEL_NOT_FULL_GRAPH: Meaning(
        "A sentinel did not run as a full captured graph, so its time cannot be compared with the stored cost.",
        "Check that the engine captures full graphs for every size it lists.",
    ),
    Reason.SENTINEL_OFF_GRID: Meaning(
        "A sentinel ran with a number of tokens or requests for which no cost is stored.",
        "Report it with the boot report: the engine changed how it builds dummy batches.",
    ),
    Reason.SENTINEL_SCALE: Meaning(
        "A sentinel was far faster or slower than its stored cost: measured / stored was outside the limits (by "
        "default 0.4 to 2.5).",
        "Compare clocks, power limit and other load with the entry's conditions (`warmcurve show`).",
    ),
    Reason.SENTINEL_SHAPE: Meaning(
        "The costs at the sentinels changed by different factors. The report says which sizes changed. Planning with "
        "the stored curves could lose more throughput than `WARMCURVE_MAX_REGRET` allows.",
        "Compare the machine's state with the entry's conditions (`warmcurve show`). If this happens again at the same "
        "sizes, the stored calibration was disturbed. The next calibration that is admitted replaces it.",
    ),
    Reason.INSTALL_REFUSED: Meaning(
        "The engine refused the verified curves.",
        "Report it with the boot report.",
    ),
    Reason.FACTOR_UNKNOWN: Meaning(
        "A factor of the fingerprint could not be read, so nothing was loaded or stored.",
        "The report names the factor. docs/limits.md says which models and devices are not supported.",
    ),
    Reason.FACTOR_INVALID: Meaning(
        "A factor has a value without a canonical form. Only text, integers, booleans, null, lists and maps have one.",
        "Report it with the boot report, which names the factor.",
    ),
    Reason.CALIBRATION_INVALID: Meaning(
        "The calibration did not give one usable sample for each run, or the engine's curves are not the medians of "
        "the samples.",
        "Nothing, if this is rare: the engine uses what it measured. If it happens again, report it with the boot "
        "report.",
    ),
    Reason.CALIBRATION_COLD: Meaning(
        "Something compiled, or the clocks came up, during the calibration. The first replay of a size took several "
        "times as long as the others. The engine uses what it measured. A stored entry stays as it is.",
        "Nothing, if the next boot records. If this happens again, keep the engine's compile caches between boots, or "
        "raise WARMCURVE_ADMIT_COLD.",
    ),
    Reason.CALIBRATION_NOISY: Meaning(
        "The replays of one size differ so much that their median cannot be trusted. The engine uses what it measured. "
        "A stored entry stays as it is.",
        "Look for other programs on the device, for changing clocks and for a power limit. If the machine is always "
        "this noisy, raise WARMCURVE_ADMIT_NOISE and WARMCURVE_MAX_REGRET.",
    ),
    Reason.CALIBRATION_FLAT: Meaning(
        "The largest size costs hardly more than the smallest, so the runs probably did not have their sizes. The "
        "engine uses what it measured. A stored entry stays as it is.",
        "Check that the engine runs each size that it lists. If the largest batch really is as cheap as the smallest, "
        "set WARMCURVE_ADMIT_RISE=0.",
    ),
    Reason.CALIBRATION_BENT: Meaning(
        "A size costs much less than a smaller one. A planner assumes that no size is cheaper than a smaller one, so "
        "it would plan with a much higher cost than was measured. The engine uses what it measured. A stored entry "
        "stays as it is.",
        "Nothing, if the next boot records: something disturbed the smaller size. If this happens again at the same "
        "sizes, the engine's kernels have such costs: raise WARMCURVE_ADMIT_BEND.",
    ),
    Reason.MACHINE_UNSTABLE: Meaning(
        "This machine's costs change from boot to boot. Its calibrations of this configuration disagree, each with the "
        "one before it, or they go back and forth between steady states. The engine uses what it measured. A stored "
        "entry stays as it is.",
        "Look for clocks and power limits that change, and for other programs on the device. `warmcurve show` lists "
        "the calibrations and the states of each machine. A calibration is stored again when it agrees with the one "
        "before it. If the machine has several states, it must also stay in one of them. "
        "`WARMCURVE_MODE=record` stores the present state once two calibrations in a row agree.",
    ),
    Reason.MACHINES_DIFFER: Meaning(
        "Another machine with the same fingerprint has other costs. It has replaced this machine's entry twice. The "
        "engine uses what it measured. The stored entry stays as it is.",
        "Compare the two machines: clocks, power limits, cooling, other load. If they are meant to differ, give each a "
        "store of its own. WARMCURVE_MODE=record stores this machine's curves.",
    ),
    Reason.STORE_UNSAFE: Meaning(
        "Another user owns the store or may write to it, so nothing in it can be trusted.",
        "Give the directory to the user that runs the engine, with mode 0700. If its group may write to it and is "
        "trusted, set WARMCURVE_TRUST_GROUP=1.",
    ),
    Reason.STORE_READ_ONLY: Meaning(
        "The store cannot be written: the file system is read-only, or the permission is missing.",
        "Nothing, if the store is read-only on purpose: it has no entry for this configuration. Otherwise make it "
        "writable.",
    ),
    Reason.STORE_FULL: Meaning(
        "The file system or quota of the store is full.",
        "Free some space. An entry needs 20 to 50 kB.",
    ),
    Reason.STORE_CANNOT_RENAME: Meaning(
        "A file can be made in the store, but it cannot be renamed. Without a rename another boot could read half of "
        "an entry, so nothing was stored. Object storage that is mounted as a directory often has no rename. Entries "
        "in such a store are still read.",
        "Set VLLM_CACHE_ROOT to a local disk, to NFS, or to another file system with rename. If this one has rename, "
        "look for what forbids it: an append-only directory, or a file of another user with the entry's name.",
    ),
    Reason.STORE_UNAVAILABLE: Meaning(
        "The store could not be reached or created.",
        "The report names the path and the error. Set VLLM_CACHE_ROOT to a directory that exists.",
    ),
    Reason.RANKS_DIFFER: Meaning(
        "The ranks that calibrate together differ in a factor, in the version of warmcurve or in its settings. So no "
        "stored curve can be right for all of them. All calibrated (in the mode `require` all stopped), and nothing "
        "was stored.",
        "The report names the rank and what differs. Give all ranks the same versions, settings and devices.",
    ),
    Reason.RANK_ABSENT: Meaning(
        "A rank did not vote in time. It runs without warmcurve, is switched off, late or dead. All others calibrated, "
        "and nothing was stored.",
        "The report names the rank if it can. Install warmcurve and switch it on at every node, or switch it off at "
        "all of them. If a rank is only late, raise WARMCURVE_VOTE_TIMEOUT.",
    ),
    Reason.VOTE_FAILED: Meaning(
        "The key-value store that ranks vote over failed, or a message could not be read. All ranks calibrated. The "
        "curves were stored only if the first vote had found all ranks alike.",
        "Nothing, if this is rare. If it happens again, look at the connection between the nodes.",
    ),
    Reason.VOTE_UNAVAILABLE: Meaning(
        "Several ranks calibrate together, and there is no key-value store of exactly these ranks to vote over. This "
        "is so with elastic expert parallelism, and with several engines in one process group. Every rank calibrated "
        "as it does without warmcurve.",
        "Nothing. Such deployments cannot boot warm yet.",
    ),
    Reason.VOTE_LOST: Meaning(
        "A rank voted for the stored curves. Then it could neither read the decision nor take its vote back. It "
        "exited, because anything that it ran could have hung the other ranks.",
        "Restart the deployment. Look at the connection between the nodes, which failed during the boot.",
    ),
    Reason.SWITCHED_OFF: Meaning(
        "The mode is `off`. The engine calibrated as it does without warmcurve.",
        "To boot warm, set WARMCURVE_MODE=reuse on all ranks.",
    ),
    Reason.MODE_RECORD: Meaning(
        "The mode is `record`. The engine calibrates at each boot, and its curves replace the stored ones.",
        "To boot warm, set WARMCURVE_MODE=reuse.",
    ),
    Reason.MODE_VERIFY: Meaning(
        "The mode is `verify`. The engine calibrated in full, and nothing was stored. The report says how much "
        "throughput is lost by planning with the stored curves if the fresh ones are true, and the other way round.",
        "To boot warm, set WARMCURVE_MODE=reuse.",
    ),
    Reason.CURVES_REQUIRED: Meaning(
        "The mode is `require`, and there are no stored curves that hold. `missed` and the detail say why. The engine "
        "was stopped before it served.",
        "If no curves are stored, record them on this machine (`WARMCURVE_MODE=reuse` or `record`), or copy the entry "
        "of this configuration into the store. `warmcurve explain` says which factors differ. In any other case, do "
        "what is advised for the reason in `missed`.",
    ),
    Reason.NOTHING_CAPTURED: Meaning(
        "The engine captured no graph, so there is no size at which a stored curve could be checked.",
        "Enable full CUDA graphs for decode batches.",
    ),
    Reason.ENGINE_UNKNOWN: Meaning(
        "The engine calibrates like no release that warmcurve knows. The detail names the version and what is new.",
        "Update warmcurve, or run a release listed in docs/compatibility.md. Where the newest warmcurve says so too, "
        "report the detail to its maintainers.",
    ),
    Reason.SETTINGS_INVALID: Meaning(
        "An environment variable of warmcurve has a value that cannot be understood.",
        "The message names the variable and the values that it takes.",
    ),
    Reason.ENGINE_FAILED: Meaning(
        "The engine itself raised an error while it calibrated.",
        "See the engine's own error.",
    ),
    Reason.BOOT_INTERRUPTED: Meaning(
        "A signal or another part of the engine told the process to end before the curves were in place. Nothing was "
        "stored.",
        "Nothing, if somebody stopped it. If this happens again, find out what ends it. The time limit of a start-up "
        "probe or of a scheduler must be longer than a calibration.",
    ),
    Reason.INTERNAL_ERROR: Meaning(
        "warmcurve had an unforeseen error. The engine calibrated as it does without warmcurve.",
        "Report it with the boot report, which names the step and the error.",
    ),
}
