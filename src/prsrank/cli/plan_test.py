"""The command `prsrank plan-test`."""

import typer

from prsrank.cli.arguments import Json, Seed, print_json, working
from prsrank.cli.interleave import By
from prsrank.cli.log_curve import PlanCurve, curve_of
from prsrank.cli.log_inputs import LogOptions
from prsrank.evaluation.online_plan import InterleavingPlan, OnlinePlan
from prsrank.evaluation.online_plan import plan_test as plan_for


def plan_test(
    log: LogOptions,
    gain: float = typer.Option(
        ..., max=1000, metavar="SHARE", help="Expected gain in clicks per session: 0.03 is 3 %."
    ),
    level: float = typer.Option(
        0.05, help="How often the test may find a difference that is not there (two-sided)."
    ),
    power: float = typer.Option(0.8, help="How often the test is to find the gain."),
    by: By = "session",
    propensity: PlanCurve = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    r"""Say how many sessions an online test of an expected gain takes: A/B, or interleaving.

    Clicks per session and their variance are the log's. What interleaving shows of the gain is
    found by simulation on the log's lists, with docs moved towards the order by their clicks.

    \b
    Examples:
      prsrank plan-test log.parquet --gain 0.03
      prsrank plan-test log.parquet --gain 0.03 --power 0.9 --propensity power:1 --json
    """
    clicks = log.clicks()
    known = curve_of(log, clicks, propensity)
    with working("interleaving lists of the log"):
        plan = plan_for(
            clicks, gain=gain, curve=known.curve, level=level, power=power, by=by, seed=seed
        )
    if json:
        print_json(plan.to_json_dict() | {"curve": known.how})
        return
    for line in _lines(plan, known.how):
        typer.echo(line)


def _lines(plan: OnlinePlan, curve: str) -> list[str]:
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
