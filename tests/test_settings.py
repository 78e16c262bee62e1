"""The environment is parsed once, and what cannot be understood is named."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmcurve.boot.settings import Settings, flag
from warmcurve.curves.admission import Thresholds
from warmcurve.curves.sentinel import Limits
from warmcurve.errors import SettingsError
from warmcurve.outcome import Reason

LIMITS = {"WARMCURVE_SCALE_LOW": (0, 1), "WARMCURVE_SCALE_HIGH": (1, math.inf), "WARMCURVE_MAX_REGRET": (0, 1)}


def test_an_empty_environment_gives_the_defaults():
    """Unset, empty and blank variables are the documented defaults; those of others are not looked at."""
    blank = dict.fromkeys((*LIMITS, "WARMCURVE_TRUST_GROUP"), " ")
    for environment in ({}, blank, {"HOME": "/root", "WARMCURVE_OTHER": "nonsense"}):
        assert Settings.from_environment(environment) == Settings(Limits(0.4, 2.5, 0.2), trust_group=False)


ADMIT = {f"WARMCURVE_ADMIT_{name}": name.lower() for name in ("NOISE", "COLD", "RISE", "BEND")}


@pytest.mark.parametrize("name", ADMIT)
def test_every_threshold_is_read(name: str):
    """Each sets its own field; a blank one is the default; none is below what would refuse a perfect curve."""
    default = Thresholds()
    value = 0.5 if name.endswith("RISE") else 7.5
    found = Settings.from_environment({name: str(value)}).thresholds
    assert found == msgspec.structs.replace(default, **{ADMIT[name]: value})
    assert Settings.from_environment({name: " "}).thresholds == default
    for text in ("nan", "-1", "inf", "much"):
        with pytest.raises(SettingsError, match=name):
            Settings.from_environment({name: text})


@pytest.mark.parametrize(
    ("text", "policy"), [("", "two"), ("two", "two"), (" Sweep", "sweep"), ("2", 2), ("17", 17), ("007", 7)]
)
def test_the_policy_of_sentinels_is_read(text: str, policy: str | int):
    """Two words, or a number from 2 on."""
    assert Settings.from_environment({"WARMCURVE_SENTINELS": text}).sentinels == policy


@pytest.mark.parametrize("text", ["1", "0", "-2", "2.0", "all", "two2", "²", "1_0", "9" * 5000])
def test_a_policy_that_is_none_is_refused(text: str):
    """What is neither of the words nor such a number is refused with the values it takes."""
    with pytest.raises(SettingsError, match="WARMCURVE_SENTINELS") as refused:
        Settings.from_environment({"WARMCURVE_SENTINELS": text})
    assert "sweep" in refused.value.detail


@pytest.mark.parametrize(("text", "regret"), [("", 0.2), ("two", 0.2), ("5", 0.2), ("sweep", 0.1)])
def test_a_sweep_is_held_to_less_unless_told(text: str, regret: float):
    """The loss that is allowed by default depends on the policy; one that is set holds for every policy."""
    chosen = {"WARMCURVE_SENTINELS": text}
    assert Settings.from_environment(chosen).limits == Limits(max_regret=regret)
    assert Settings.from_environment(chosen | {"WARMCURVE_MAX_REGRET": "0.3"}).limits == Limits(max_regret=0.3)


def test_the_tail_is_skipped_or_run_once():
    """Two words; others are refused."""
    assert Settings.from_environment({"WARMCURVE_TAIL": "ONCE "}).tail == "once"
    assert Settings.from_environment({"WARMCURVE_TAIL": "skip"}).tail == Settings.from_environment({}).tail == "skip"
    for text in ("twice", "1", "on"):
        with pytest.raises(SettingsError, match="WARMCURVE_TAIL"):
            Settings.from_environment({"WARMCURVE_TAIL": text})


def test_ranks_must_agree_on_what_changes_the_runs():
    """Limits, policy and tail are common; what only the leader does with its own disk and samples is not."""
    common = Settings().common()
    for other in (Settings(Limits(max_regret=0.3)), Settings(sentinels=3), Settings(tail="once")):
        assert other.common() != common
    for other in (Settings(trust_group=True), Settings(vote_timeout_s=1), Settings(thresholds=Thresholds(noise=1))):
        assert other.common() == common


def test_every_variable_is_read():
    """Each variable sets its own field."""
    environment = {"WARMCURVE_SCALE_LOW": "0.5", "WARMCURVE_SCALE_HIGH": " 2 ", "WARMCURVE_MAX_REGRET": "1e-1"}
    found = Settings.from_environment(environment | {"WARMCURVE_TRUST_GROUP": "1"})
    assert found == Settings(Limits(0.5, 2.0, 0.1), trust_group=True)


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("text", ["nan", "-1", "-0.001", "one", "0,5", "0x1", "1e999999", "-inf", "\0", "0.5;", "50%"])
def test_a_number_out_of_its_range_is_refused(name: str, text: str):
    """A limit that is no number, or not in its range, is refused, and the refusal names variable and range."""
    with pytest.raises(SettingsError, match=name) as refused:
        Settings.from_environment({name: text})
    assert refused.value.reason is Reason.SETTINGS_INVALID
    assert "number from" in refused.value.detail


@pytest.mark.parametrize(("name", "text"), [("WARMCURVE_SCALE_LOW", "1.01"), ("WARMCURVE_SCALE_HIGH", "0.99")])
def test_limits_enclose_one(name: str, text: str):
    """No pair of limits can turn a replay down that takes exactly the stored time."""
    with pytest.raises(SettingsError):
        Settings.from_environment({name: text})


@given(st.sampled_from(list(LIMITS)), st.text() | st.floats().map(str))
def test_any_text_is_a_limit_or_refused(name: str, text: str):
    """Whatever stands in a variable gives a limit in its range, which can be written, or a SettingsError."""
    try:
        limits = Settings.from_environment({name: text}).limits
    except SettingsError:
        return
    assert 0 <= limits.scale_low <= 1 <= limits.scale_high
    assert 0 <= limits.max_regret <= 1
    assert msgspec.json.decode(msgspec.json.encode(limits), type=Limits) == limits


@pytest.mark.parametrize(
    ("text", "on"),
    [*((text, True) for text in ("1", "true", "YES", " on ")), *((text, False) for text in ("", "0", "False", "no"))],
)
def test_a_flag_is_on_or_off(text: str, on: bool):
    """A flag takes the usual words in any case."""
    assert flag({"FLAG": text}, "FLAG") is on
    assert flag({}, "FLAG") is False


@pytest.mark.parametrize("text", ["2", "enable", "o n", "tru", "\ud800", "x" * 10_000])
def test_a_flag_that_is_neither_is_refused(text: str):
    """A word that is neither on nor off is refused, and quoted in a short text that can be written."""
    with pytest.raises(SettingsError, match="FLAG") as refused:
        flag({"FLAG": text}, "FLAG")
    assert len(refused.value.detail.encode("utf-8")) < 200


@pytest.mark.parametrize("text", ["", "off", "record", "reuse", "require", "VERIFY "])
def test_the_mode_is_read(text: str):
    """One of five words; unset is `reuse`. All ranks must have it alike."""
    found = Settings.from_environment({"WARMCURVE_MODE": text})
    assert found.mode == (text.strip().lower() or "reuse")
    assert found.common()["mode"] == found.mode


@pytest.mark.parametrize("text", ["on", "1", "requires", "record,verify"])
def test_a_mode_that_is_none_is_refused(text: str):
    """The error names all five."""
    with pytest.raises(SettingsError, match="off, record, reuse, require, verify"):
        Settings.from_environment({"WARMCURVE_MODE": text})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("90d", 7_776_000), ("12h", 43_200), ("30M", 1800), ("45s", 45), ("007d", 604_800)],
)
def test_an_age_is_read(text: str, seconds: int | None):
    """A number and a unit; unset is no limit."""
    assert Settings.from_environment({"WARMCURVE_MAX_AGE": text}).max_age_s == seconds


@pytest.mark.parametrize("text", ["d", "0d", "-1d", "1.5h", "90", "1w", "1 d", "²d", "9" * 5000 + "d"])
def test_an_age_that_is_none_is_refused(text: str):
    """Also a number without its unit: nobody knows whether days or seconds were meant."""
    with pytest.raises(SettingsError, match="WARMCURVE_MAX_AGE"):
        Settings.from_environment({"WARMCURVE_MAX_AGE": text})


@pytest.mark.parametrize(("text", "count"), [("", 3), ("0", 0), ("1", 1), ("16", 16)])
def test_the_row_for_quarantine_is_read(text: str, count: int):
    """As many as are remembered, at most; 0 is never."""
    assert Settings.from_environment({"WARMCURVE_QUARANTINE": text}).quarantine == count


@pytest.mark.parametrize("text", ["-1", "17", "three", "1.0", "²", "9" * 5000])
def test_a_row_that_is_none_is_refused(text: str):
    """A longer row than is remembered would never be reached."""
    with pytest.raises(SettingsError, match="WARMCURVE_QUARANTINE"):
        Settings.from_environment({"WARMCURVE_QUARANTINE": text})


def test_a_sweep_has_its_own_limit_unless_one_is_given():
    """Also where settings are built by hand; a limit that is given holds, though it be the other's default."""
    assert Settings().limits == Limits(max_regret=0.2)
    assert Settings(sentinels="sweep").limits == Limits(max_regret=0.1)
    assert msgspec.structs.replace(Settings(), sentinels="sweep").limits == Limits(max_regret=0.1)
    assert Settings(sentinels=5).limits == Limits(max_regret=0.2)
    assert Settings(Limits(), sentinels="sweep").limits == Limits(max_regret=0.2)
    assert Settings.from_environment({"WARMCURVE_SENTINELS": "sweep"}) == Settings(sentinels="sweep")
