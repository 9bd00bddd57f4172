"""The command `prsrank plan-experiment`."""

import typer

from prsrank.cli.arguments import Json, print_json
from prsrank.cli.log_curve import PlanCurve, curve_of
from prsrank.cli.log_inputs import LogOptions
from prsrank.propensity.planner import ExperimentPlan
from prsrank.propensity.planner import plan_experiment as plan_for


def plan_experiment(
    log: LogOptions,
    position: int = typer.Option(
        ..., min=2, max=1_000_000, help="The position k to know p_k / p_1 of."
    ),
    precision: float = typer.Option(
        0.1, help="Wanted half-width of its interval, as a share: 0.1 is 10 %."
    ),
    design: str = typer.Option("top-k", help="{designs}."),
    design_k: int = typer.Option(
        10, min=2, max=1_000_000, help="Last position that the design changes (not for uniform)."
    ),
    confidence: float = typer.Option(0.95, help="Of the interval."),
    propensity: PlanCurve = None,
    json: Json = False,
) -> None:
    r"""Say how many randomised sessions a wanted precision takes, and what they cost.

    From the click-through rates of a log, for one design; compare several designs. The curve
    is what the log gives, by the choice of fit; where it gives none, --propensity must.

    \b
    Examples:
      prsrank plan-experiment log.parquet --position 5 --precision 0.1 --design pivot
      prsrank plan-experiment log.parquet --position 5 --propensity power:1
    """
    clicks = log.clicks()
    known = curve_of(log, clicks, propensity)
    plan = plan_for(
        clicks,
        position=position,
        precision=precision,
        design=design,
        k=design_k,
        confidence=confidence,
        curve=known.curve,
    )
    if json:
        print_json(plan.to_json_dict() | {"curve": known.how})
        return
    for line in _lines(plan, known.how):
        typer.echo(line)


def _lines(plan: ExperimentPlan, curve: str) -> list[str]:
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
