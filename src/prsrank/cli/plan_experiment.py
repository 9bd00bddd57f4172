"""The command `prsrank plan-experiment`."""

import typer

from prsrank.cli.arguments import Json, print_json
from prsrank.cli.option_groups import LogOptions
from prsrank.propensity.curve import parse_propensity
from prsrank.propensity.planner import plan_experiment as plan_for


def plan_experiment(
    log: LogOptions,
    position: int = typer.Option(..., min=2, help="The position k to know p_k / p_1 of."),
    precision: float = typer.Option(
        0.1, help="Wanted half-width of its interval, as a share: 0.1 is 10 %."
    ),
    design: str = typer.Option("top-k", help="{designs}."),
    design_k: int = typer.Option(
        10, min=2, help="Last position that the design changes (not for uniform)."
    ),
    confidence: float = typer.Option(0.95, help="Of the interval."),
    propensity: str = typer.Option(
        "power:1", metavar="FILE|power:ETA", help="The propensities as far as known."
    ),
    json: Json = False,
) -> None:
    r"""Say how many randomised sessions a wanted precision takes, and what they cost.

    From the click-through rates of a log, for one design; compare several designs.

    \b
    Example:
      prsrank plan-experiment log.parquet --position 5 --precision 0.1 --design pivot
    """
    curve = parse_propensity(propensity)
    plan = plan_for(
        log.clicks(),
        position=position,
        precision=precision,
        design=design,
        k=design_k,
        confidence=confidence,
        curve=curve,
    )
    if json:
        print_json(plan.to_json_dict())
        return
    typer.echo(
        f"{plan.sessions:,} sessions of the design {plan.design} give p_{position} / p_1 "
        f"within {precision:.1%} ({confidence:.0%} interval)"
    )
    typer.echo(
        f"they cost about {plan.clicks_lost:,.0f} clicks, {plan.share_lost:.1%} of the clicks "
        f"that as many sessions as logged would have ({plan.clicks_per_session:.2f} each)"
    )
