"""The commands `prsrank plan experiment` and `prsrank plan test`."""

from typing import Annotated

import typer

from prsrank.cli.inputs import PlainLog
from prsrank.cli.interleave import By
from prsrank.cli.options import Json, parse_counted, show, working
from prsrank.evaluation import online_plan
from prsrank.evaluation.online_plan import InterleavingPlan, OnlinePlan
from prsrank.propensity import planner
from prsrank.propensity.planner import ExperimentPlan

_LAST = 10


def plan_experiment(
    log: PlainLog,
    position: Annotated[int, typer.Option(min=2, max=1000000)],
    precision: float = 0.1,
    design: str = "top-k",
    propensity: str | None = None,
    json: Json = False,
) -> None:
    r"""Say how many randomised sessions a wanted precision takes, and what they cost.

    From the click-through rates of a log, for one design; compare several designs. The curve
    is what the log gives, by the choice of fit; where it gives none, --propensity must.

    Args:
        position: The position k to know p_k / p_1 of.
        precision: Wanted half-width of its 95 % interval, as a share: 0.1 is 10 %.
        design (DESIGN[:K]): {designs}; K is the last position that it changes (not for uniform), 10
            if not said.
        propensity (FILE|power:ETA): The propensities as far as known. Default: those in the log,
            else the best estimate that it allows.

    \b
    Examples:
      prsrank plan experiment log.parquet --position 5 --precision 0.1 --design pivot:5
      prsrank plan experiment log.parquet --position 5 --propensity power:1
    """
    name, last = parse_counted(design, "--design")
    clicks = log.clicks()
    estimate = log.curve_of(clicks, propensity)
    plan = planner.plan_experiment(
        clicks,
        position=position,
        precision=precision,
        design=name,
        k=_LAST if last is None else last,
        curve=estimate.curve,
    )
    value = plan.to_json_dict() | {"curve": estimate.how}
    show(_experiment_lines(plan, estimate.how), value, json=json)


def plan_test(
    log: PlainLog,
    gain: Annotated[float, typer.Option(max=1000)],
    power: float = 0.8,
    by: By = "session",
    propensity: str | None = None,
    json: Json = False,
) -> None:
    r"""Say how many sessions an online test of an expected gain takes: A/B, or interleaving.

    Clicks per session and their variance are the log's. What interleaving shows of the gain is
    found by simulation on the log's lists, with docs moved towards the order by their clicks.

    Args:
        gain (SHARE): Expected gain in clicks per session: 0.03 is 3 %.
        power: How often the test is to find the gain; it is one at the 5 % level.
        propensity (FILE|power:ETA): The propensities as far as known. Default: those in the log,
            else the best estimate that it allows.

    \b
    Examples:
      prsrank plan test log.parquet --gain 0.03
      prsrank plan test log.parquet --gain 0.03 --power 0.9 --propensity power:1 --json
    """
    clicks = log.clicks()
    estimate = log.curve_of(clicks, propensity)
    with working("interleaving lists of the log"):
        plan = online_plan.plan_test(clicks, gain=gain, curve=estimate.curve, power=power, by=by)
    value = plan.to_json_dict() | {"curve": estimate.how}
    show(_test_lines(plan, estimate.how), value, json=json)


def _experiment_lines(plan: ExperimentPlan, curve: str) -> list[str]:
    lost = plan.clicks_lost
    return [
        f"{plan.sessions:,} sessions of the design {plan.design} give p_{plan.position} / p_1 "
        f"within {plan.precision:.1%} ({plan.confidence:.0%} interval)",
        f"they {'cost' if lost >= 0 else 'gain'} about {abs(lost):,.0f} clicks, "
        f"{abs(plan.share_lost):.1%} of the clicks that as many sessions as logged would have "
        f"({plan.clicks_per_session:.2f} each)",
        *([f"warning: {plan.warning}"] if plan.warning else []),
        f"curve: {curve}",
    ]


def _test_lines(plan: OnlinePlan, curve: str) -> list[str]:
    return [
        f"a gain of {plan.gain:.1%} is {plan.gain * plan.clicks_per_session:.3g} clicks per session "
        f"({plan.clicks_per_session:.2f} as logged, variance {plan.variance:.2f})",
        f"A/B test: {plan.ab_sessions:,} sessions, half of them in each arm",
        _interleaving(plan.small_change, "with a ranker that changes little"),
        _interleaving(plan.reordered, "with one that orders the docs anew")
        + "; one that brings many other docs may take as many as the A/B test",
        f"each finds the gain in {plan.power:.0%} of tests, and a difference that is not there in "
        f"{plan.level:.0%} (independent by {plan.by})",
        f"curve: {curve}",
    ]


def _interleaving(plan: InterleavingPlan, ranker: str) -> str:
    if plan.sessions is None:
        return f"interleaving {ranker}: not planned: {plan.reason}"
    share = f"it is to get {plan.credit_share:.1%} of the clicks"
    return f"interleaving {ranker}: {plan.sessions:,} sessions, in which {share}"
