"""How a boot ended, and why: the closed vocabulary of the whole project.

Every boot ends in exactly one `Outcome`. A `Reason` says what kept it from its plain course: it is `None` for
an entry that was accepted (`reused`) and for a first boot with nothing stored yet (`recorded`). The same words are
the field of the log line, the label of a metric, the column of the CLI and the heading in `docs/outcomes.md`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Outcome(StrEnum):
    REUSED = "reused"
    RECORDED = "recorded"
    UNRECORDED = "unrecorded"


OUTCOMES: Final[Mapping[Outcome, str]] = {
    Outcome.REUSED: "The stored curves passed the sentinels and are installed. No calibration ran.",
    Outcome.RECORDED: "The engine calibrated in full, and the result was stored for the next boot.",
    Outcome.UNRECORDED: "Nothing was stored, and nothing stored was used: the engine calibrated as it does without "
    "warmcurve, failed or was told to end while it did, or was not let go on without stored curves (`require`).",
}
"""What each outcome means."""


class Step(StrEnum):
    """Where in its path a boot is; a report of an unforeseen error names it."""

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
    # A stored curve that the sentinels or the engine turned down.
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
"""An entry was tried and did not hold."""
PLANNED: Final = frozenset({Reason.ABSENT, Reason.MODE_RECORD})
"""Why no stored curve was used where nothing went wrong: the boot recorded as planned."""


class Meaning(NamedTuple):
    """What a reason means, and what a person can do about it."""

    text: str
    remedy: str


MEANINGS: Final[Mapping[Reason, Meaning]] = {
    Reason.ABSENT: Meaning(
        "No entry is stored for this fingerprint.",
        "Nothing: the first boot of a configuration calibrates and stores its curves.",
    ),
    Reason.ENTRY_UNREADABLE: Meaning(
        "Something lies under the entry's name that cannot be read as a file: a directory, a pipe, a link, a file "
        "without read permission, or a file system that answers with an error, also when it is asked again.",
        "Look at the path in the report; remove what does not belong there, or check the file system.",
    ),
    Reason.ENTRY_TOO_LARGE: Meaning(
        "The entry is larger than any entry can be, so it was not parsed.",
        "Find out who wrote it. A boot that meets it moves it aside (`*.bad-…`) and calibrates again.",
    ),
    Reason.ENTRY_TRUNCATED: Meaning(
        "The entry ends before the length that its header declares.",
        "Nothing: a boot that meets it moves it aside and calibrates again. If it recurs, something other than "
        "warmcurve copies files into the store.",
    ),
    Reason.ENTRY_MALFORMED: Meaning(
        "The entry is not a header line followed by a payload line of JSON.",
        "Nothing: a boot that meets it moves it aside and calibrates again.",
    ),
    Reason.ENTRY_CHECKSUM: Meaning(
        "The payload does not have the checksum that the header declares: it was altered or damaged.",
        "Nothing: a boot that meets it moves it aside and calibrates again. If it recurs, check the disk.",
    ),
    Reason.ENTRY_SCHEMA: Meaning(
        "The entry was written in a format or schema that this version does not know.",
        "Nothing: a boot that meets it replaces it. Keep one version of warmcurve per store to avoid it.",
    ),
    Reason.ENTRY_INVALID: Meaning(
        "The payload breaks a rule of entries: a wrong type, an unknown or repeated field, a number that is not "
        "finite, sizes that do not increase, or curves that are not the medians of their samples.",
        "Nothing: a boot that meets it moves it aside and calibrates again.",
    ),
    Reason.ENTRY_FOREIGN: Meaning(
        "The payload is an entry of another fingerprint: its factors do not hash to the name it lies under.",
        "Do not rename entries. A boot that meets it moves it aside and calibrates again.",
    ),
    Reason.ENTRY_INCOMPLETE: Meaning(
        "The entry does not hold a sample for every run that this engine would calibrate with.",
        "Nothing: a boot that meets it replaces it.",
    ),
    Reason.ENTRY_EXPIRED: Meaning(
        "The entry is older than `WARMCURVE_MAX_AGE` allows, or does not say when it was recorded.",
        "Nothing: a boot that meets it calibrates and replaces it.",
    ),
    Reason.ENTRY_QUARANTINED: Meaning(
        "This machine turned the entry down several times in a row (`WARMCURVE_QUARANTINE`), and no calibration has "
        "replaced it since. So it was not tried again. Other machines go on with it, and so does the mode `require`.",
        "`warmcurve show` lists the rejections, and the reports say why no calibration was stored. Once it is, the "
        "quarantine ends; so it does when the file of this machine under `history/` is deleted.",
    ),
    Reason.SENTINEL_MISSING: Meaning(
        "A sentinel replay gave no timing, or one that is not a positive finite number.",
        "Nothing, if rare. If it recurs, report it with the boot report: the engine may time steps differently now.",
    ),
    Reason.SENTINEL_NOT_FULL_GRAPH: Meaning(
        "A sentinel did not run as a full captured graph, so its time says nothing about the stored costs.",
        "Check that the engine captures full graphs for every size it lists.",
    ),
    Reason.SENTINEL_OFF_GRID: Meaning(
        "A sentinel ran with a number of tokens or requests for which no cost is stored.",
        "Report it with the boot report: the engine changed how it builds dummy batches.",
    ),
    Reason.SENTINEL_SCALE: Meaning(
        "A sentinel was far faster or slower than stored: measured / stored lay outside the limits (0.4 to 2.5, unless "
        "set otherwise).",
        "Compare clocks, power limit and neighbours with the entry's conditions (`warmcurve show`).",
    ),
    Reason.SENTINEL_SHAPE: Meaning(
        "The sentinels moved by different factors; the report says which sizes did. Planning with the stored curves "
        "could lose more throughput than `max_regret` allows.",
        "Compare the machine's state with the entry's conditions; if it recurs at the same sizes, the stored "
        "measurement was disturbed; the calibration that follows replaces it, if it is admitted.",
    ),
    Reason.INSTALL_REFUSED: Meaning(
        "The engine refused the verified curves.",
        "Report it with the boot report.",
    ),
    Reason.FACTOR_UNKNOWN: Meaning(
        "A factor that the fingerprint requires could not be read, so nothing was loaded or stored.",
        "The report names the factor. For model files that are not understood, see docs/limits.md.",
    ),
    Reason.FACTOR_INVALID: Meaning(
        "A factor has a value that has no canonical form (only text, integers, booleans, null, lists and maps have).",
        "Report it with the boot report, which names the factor.",
    ),
    Reason.CALIBRATION_INVALID: Meaning(
        "The calibration did not give one usable sample per run, or the engine's curves are not the medians of them.",
        "Nothing, if rare: the engine uses what it measured. If it recurs, report it with the boot report.",
    ),
    Reason.CALIBRATION_COLD: Meaning(
        "Something compiled, or clocks came up, while the curves were measured: the first replay of a size took "
        "several times as long as the others. The engine uses what it measured; a stored entry stays as it is.",
        "Nothing, if the next boot records. If it recurs, keep the engine's own compile caches between boots, or raise "
        "WARMCURVE_ADMIT_COLD.",
    ),
    Reason.CALIBRATION_NOISY: Meaning(
        "Replays of one size differ so much that their median is not to be trusted. The engine uses what it measured; "
        "a stored entry stays as it is.",
        "Look for what shares the device, for changing clocks and for a power limit. On a machine that is always this "
        "noisy raise WARMCURVE_ADMIT_NOISE, and the sentinels' limits with it.",
    ),
    Reason.CALIBRATION_FLAT: Meaning(
        "The largest size cost hardly more than the smallest, so the runs cannot have done what their sizes say. The "
        "engine uses what it measured; a stored entry stays as it is.",
        "Check that the engine runs each size as it lists it. If the largest batch is really as cheap as the smallest, "
        "set WARMCURVE_ADMIT_RISE=0.",
    ),
    Reason.CALIBRATION_BENT: Meaning(
        "A size cost much less than a smaller one. A planner takes no size for cheaper than a smaller one, so it would "
        "plan with much more than was measured. The engine uses what it measured; a stored entry stays as it is.",
        "Nothing, if the next boot records: a disturbance hit the smaller size. If it recurs at the same sizes, the "
        "engine's kernels are like that: raise WARMCURVE_ADMIT_BEND.",
    ),
    Reason.MACHINE_UNSTABLE: Meaning(
        "Calibrations of the same configuration on this machine disagree, each with the one before it, or go back and "
        "forth between states that each are steady: its costs change from boot to boot. The engine uses what it "
        "measured; a stored entry stays as it is.",
        "Look for clocks and power limits that change, and for what shares the device. `warmcurve show` lists the "
        "calibrations and the states of each machine. A calibration is stored again once it agrees with the one before "
        "it, and where the machine has several states, once it stays in one. If it is meant to stay as it is now, boot "
        "with WARMCURVE_MODE=record.",
    ),
    Reason.MACHINES_DIFFER: Meaning(
        "Another machine with the same fingerprint has other costs: it put its entry in the place of this one, and "
        "again after it had been replaced. The engine uses what it measured; the stored entry stays as it is.",
        "Compare the two machines: clocks, power limits, cooling, neighbours. If they are meant to differ give each a "
        "store of its own. WARMCURVE_MODE=record makes this machine's curves the stored ones.",
    ),
    Reason.STORE_UNSAFE: Meaning(
        "Another user owns the store or may write to it, so nothing in it can be trusted.",
        "Give the directory to the user that runs the engine, mode 0700; or set WARMCURVE_TRUST_GROUP=1 if the "
        "group that may write to it is trusted.",
    ),
    Reason.STORE_READ_ONLY: Meaning(
        "The store cannot be written: a read-only file system or missing permission.",
        "Nothing, if the store is meant to be read-only and this configuration is not baked into it; else make it "
        "writable.",
    ),
    Reason.STORE_FULL: Meaning(
        "The file system or quota of the store is full.",
        "Free some space: an entry needs some ten kilobytes.",
    ),
    Reason.STORE_CANNOT_RENAME: Meaning(
        "A file can be made in the store, but not renamed, so no entry can be stored all at once: another boot could "
        "read half of one. Object storage that is mounted as a directory often has no rename. Entries that lie there "
        "are read.",
        "Keep the store on a local disk, on NFS or on another file system with rename: VLLM_CACHE_ROOT says where. If "
        "this one has it, look for what forbids it: an append-only directory, or a file of another user in the way.",
    ),
    Reason.STORE_UNAVAILABLE: Meaning(
        "The store could not be reached or created.",
        "The report names the path and the error; point VLLM_CACHE_ROOT to a directory that exists.",
    ),
    Reason.RANKS_DIFFER: Meaning(
        "The ranks that calibrate together differ in a factor, in the version of warmcurve or in its limits, so no "
        "stored curve can hold for all of them. All calibrated (or stopped, under `require`), and nothing was stored.",
        "The report names the rank and what differs: give all ranks the same versions, settings and devices.",
    ),
    Reason.RANK_ABSENT: Meaning(
        "A rank did not vote in time: it runs without warmcurve, is switched off, late or dead. All others calibrated, "
        "and nothing was stored.",
        "The report names the rank where it can: install and switch on warmcurve on every node, or switch it off on "
        "all. If ranks are that far apart in time, raise WARMCURVE_VOTE_TIMEOUT.",
    ),
    Reason.VOTE_FAILED: Meaning(
        "The store that ranks vote over failed, or a message could not be read. All ranks calibrated, and nothing was "
        "stored unless all had been found alike before.",
        "Nothing, if rare. If it recurs, look at the connection between the nodes.",
    ),
    Reason.VOTE_UNAVAILABLE: Meaning(
        "Several ranks take part in the calibration and no store is theirs alone to vote over, as with elastic expert "
        "parallelism or several engines in one process group. Every rank calibrated as it does without warmcurve.",
        "Nothing: such deployments cannot start warm yet.",
    ),
    Reason.VOTE_LOST: Meaning(
        "A rank voted for going on with stored curves and then could neither learn the decision nor take its vote "
        "back. It exited, since running anything could have hung the other ranks.",
        "Restart the deployment; look at the connection between the nodes, which failed during start-up.",
    ),
    Reason.SWITCHED_OFF: Meaning(
        "The mode is `off`: the engine calibrated as it does without warmcurve.",
        "To boot warm set WARMCURVE_MODE=reuse, on all ranks.",
    ),
    Reason.MODE_RECORD: Meaning(
        "The mode is `record`: the engine calibrates at each boot, and what is stored is replaced without being used.",
        "To boot warm set WARMCURVE_MODE=reuse.",
    ),
    Reason.MODE_VERIFY: Meaning(
        "The mode is `verify`: the engine calibrated in full, and the report says what planning with the stored curves "
        "would lose against the fresh ones, and the other way round. Nothing was stored.",
        "To boot warm set WARMCURVE_MODE=reuse.",
    ),
    Reason.CURVES_REQUIRED: Meaning(
        "The mode is `require`, and there are no stored curves that hold: `missed` and the detail say why. The engine "
        "was stopped before it served.",
        "Where none are stored, record them on this machine (`WARMCURVE_MODE=reuse` or `record`) or bring the entry of "
        "this configuration; `warmcurve explain` tells which factors differ. Else do what the reason in `missed` asks.",
    ),
    Reason.NOTHING_CAPTURED: Meaning(
        "The engine captured no graph, so there is no size at which a stored curve could be checked.",
        "Enable full graphs for decode batches.",
    ),
    Reason.ENGINE_UNKNOWN: Meaning(
        "The functions that warmcurve hooks are not those of a release it knows.",
        "Update warmcurve, or run a release listed in docs/compatibility.md.",
    ),
    Reason.SETTINGS_INVALID: Meaning(
        "A setting in the environment has a value that cannot be understood.",
        "The message names the variable and the values it takes.",
    ),
    Reason.ENGINE_FAILED: Meaning(
        "The engine itself raised an error while it calibrated.",
        "See the engine's own error.",
    ),
    Reason.BOOT_INTERRUPTED: Meaning(
        "The process was told to end before the curves were in place, by a signal or by another part of the engine. "
        "Nothing was stored.",
        "Nothing, if somebody stopped it. If it recurs, look for what ends it: the time limit of a start-up probe or "
        "of a scheduler has to be longer than a calibration takes.",
    ),
    Reason.INTERNAL_ERROR: Meaning(
        "warmcurve met an error it did not foresee. The engine calibrated as it does without warmcurve.",
        "Report it with the boot report, which names the step and the error.",
    ),
}
