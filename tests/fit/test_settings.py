"""Settings that are written once: a fit's, in its signature, its help, its options and its manifest."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from prsrank import InputError, fit_log
from prsrank.cli import app
from prsrank.fit.plan import FitSettings, Plan
from prsrank.fit.settings import Setting, called_with, settings_of


@dataclass(frozen=True)
class Tea:
    minutes: Annotated[int, Setting("How long it draws.", bounds=(1, 10, False))] = 3
    milk: Annotated[bool, Setting("Whether with milk.", option=False)] = False
    leaves: str = "green"


@called_with(Tea)
def brew(tea: Tea) -> str:
    """Brew tea.

    Args:
        {settings}
    """
    return f"{tea.leaves}, {tea.minutes} min"


def test_only_fields_with_words_are_settings():
    assert [name for name, _ in settings_of(Tea)] == ["minutes", "milk"]


def test_a_function_is_called_with_the_fields_and_says_them():
    assert brew(minutes=4, leaves="black") == "black, 4 min"
    assert str(inspect.signature(brew)) == (
        "(minutes: int = 3, milk: bool = False, leaves: str = 'green')"
    )
    assert "        minutes: How long it draws.\n        milk: Whether" in (brew.__doc__ or "")
    with pytest.raises(TypeError, match="sugar"):
        brew(sugar=1)  # type: ignore[call-arg]


def test_every_setting_of_a_fit_is_in_its_signature_its_help_and_its_options():
    settings = dict(settings_of(FitSettings))
    parameters = inspect.signature(fit_log).parameters
    assert set(settings) <= set(parameters)
    command = typer.main.get_command(app).get_command(None, "fit")  # type: ignore[attr-defined]
    options = {option.name: option for option in command.params}
    for name, setting in settings.items():
        assert f"\n        {name}: " in (fit_log.__doc__ or "")
        assert (name in options) == setting.option
        if setting.option:
            assert options[name].default == parameters[name].default
    assert {"log", "out", "data", "features", "mapping", "engine"} <= set(parameters)


@pytest.mark.parametrize("name", [n for n, s in settings_of(FitSettings) if s.bounds is not None])
def test_a_plan_refuses_what_is_out_of_a_setting_s_bounds(name):
    least, most, _ = dict(settings_of(FitSettings))[name].bounds  # type: ignore[misc]
    for value in (least - 1, most + 1):
        with pytest.raises(InputError, match=f"{name} must be from"):
            Plan("log", data="synthetic:mq2007:20", **{name: value})
