"""Settings: environment, context manager, and what is said about values that are not valid; platform information."""

from __future__ import annotations

import threading

import pytest

import pypto_pro
from pypto_pro.runtime import options as settings
from pypto_pro.runtime.platform import PlatformInfo, get_platform_info, resolve_arch


def test_defaults() -> None:
    now = settings.current()
    assert (now.executor, now.check, now.schedule, now.seed, now.threads) == ("native", False, "in_order", 0, None)


def test_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_PRO_EXECUTOR", "interp")
    monkeypatch.setenv("PYPTO_PRO_CHECK", "1")
    monkeypatch.setenv("PYPTO_PRO_SEED", "7")
    now = settings.current()
    assert (now.executor, now.check, now.seed) == ("interp", True, 7)
    monkeypatch.delenv("PYPTO_PRO_EXECUTOR")
    assert settings.current().executor == "native"
    with pypto_pro.options(check=False, seed=3):
        assert (settings.current().check, settings.current().seed) == (False, 3)


def test_options_nest_and_end() -> None:
    with pypto_pro.options(executor="interp") as outer:
        assert outer.interpreted
        with pypto_pro.options(schedule="latest", threads=2):
            now = settings.current()
            assert (now.executor, now.schedule, now.threads) == ("interp", "latest", 2)
        assert settings.current().schedule == "in_order"
    assert settings.current().executor == "native"


def test_options_end_on_an_error() -> None:
    with pytest.raises(ZeroDivisionError), pypto_pro.options(executor="interp"):
        raise ZeroDivisionError
    assert settings.current().executor == "native"


def test_threads_start_from_the_environment() -> None:
    seen = []
    with pypto_pro.options(executor="interp"):
        thread = threading.Thread(target=lambda: seen.append(settings.current().executor))
        thread.start()
        thread.join()
    assert seen == ["native"]


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("executor", "nativ", "native, interp"),
        ("schedule", "first", "in_order, latest, random"),
        ("check", "yes", "0, 1"),
        ("seed", "-1", "an int >= 0"),
        ("seed", "x", "an int >= 0"),
        ("schedules", "0", "an int >= 1"),
        ("threads", "0", "an int >= 1"),
    ],
)
def test_values_that_are_not_valid_name_those_that_are(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, valid: str
) -> None:
    variable = f"PYPTO_PRO_{name.upper()}"
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=f"{variable} is '{value}'; valid are {valid}"):
        settings.current()
    monkeypatch.delenv(variable)
    with pytest.raises(ValueError, match=valid), pypto_pro.options(**{name: value}):
        pass


def test_unknown_settings_offer_the_nearest() -> None:
    with pytest.raises(TypeError, match="did you mean `schedule`"), pypto_pro.options(scedule="latest"):
        pass


def test_settings_of_the_whole_process_name_their_variable() -> None:
    with pytest.raises(TypeError, match="PYPTO_PRO_CACHE_DIR"), pypto_pro.options(cache_dir="x"):
        pass


def test_platform_without_a_device() -> None:
    info = get_platform_info()
    assert info == PlatformInfo("DAV_3510", 32, 32, 64)
    assert info.arch == "a5"
    assert get_platform_info() is info
    assert get_platform_info(force_refresh=True) is not info


@pytest.mark.parametrize(("soc", "arch"), [("DAV_2201", "a3"), ("DAV_1001", "a3"), ("who", "a3"), ("", "")])
def test_arch_of_other_chips(soc: str, arch: str) -> None:
    assert PlatformInfo(soc).arch == arch


def test_arch_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYPTOPRO_JIT_ARCH", raising=False)
    assert [resolve_arch(option) for option in (None, "auto", " A5 ")] == ["a5"] * 3
    for wrong in ("a3", "a6", ""):
        with pytest.raises(ValueError, match="arch"):
            resolve_arch(wrong)
    monkeypatch.setenv("PYPTOPRO_JIT_ARCH", "a3")
    with pytest.raises(ValueError, match="a3"):
        resolve_arch(None)
