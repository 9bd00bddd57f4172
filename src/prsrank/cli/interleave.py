"""The command `prsrank interleave`."""

import warnings
from dataclasses import replace
from typing import Annotated

import typer

from prsrank.cli.inputs import PlainLog
from prsrank.cli.options import Json, show, working
from prsrank.errors import DataWarning
from prsrank.evaluation.interleaving import Credit, InterleavingTest, compare_credit, credit_of
from prsrank.logs.reading import open_events
from prsrank.report.numbers import fixed_text, range_text

By = Annotated[
    str,
    typer.Option(
        help="What is independent. session: the verdict is about this traffic. query: sessions of "
        "a query may move together; the verdict is about queries like these."
    ),
]

_VERDICTS = {
    "better": "better: users click more on the docs of {new} than on those of {production}",
    "worse": "worse: users click less on the docs of {new} than on those of {production}",
    "no-difference": "no difference shown between {new} and {production}",
}


def interleave(
    log: PlainLog,
    team: str = "team",
    new: str | None = None,
    by: By = "session",
    json: Json = False,
) -> None:
    r"""Say which of two rankers users prefer, from the log of a team-draft interleaving test.

    A click is credit for the ranker that picked the doc. Sessions without a team are left out.

    Args:
        team (COLUMN): The column that says which ranker picked the doc.
        new (TEAM): Which of its values is the new ranker; default: 'new', else the last of the two.

    \b
    Examples:
      prsrank interleave test.parquet
      prsrank interleave test.parquet --team picked_by --new lambdamart --by query --json
    """
    mapping = replace(log.meaning(), contexts=(team,))
    with working(f"reading {log.path}"), open_events(log.path, mapping=mapping) as events:
        credit = credit_of(events, team=team, new=new)
    test = compare_credit(credit.production, credit.new, queries=credit.queries, by=by)
    if credit.warning:
        warnings.warn(DataWarning(credit.warning), stacklevel=2)
    names = {"production_team": credit.teams[0], "new_team": credit.teams[1]}
    more = {"without_team": credit.without, "warning": credit.warning}
    show(_lines(test, credit), test.to_json_dict() | names | more, json=json)


def _lines(test: InterleavingTest, credit: Credit) -> list[str]:
    production, new = credit.teams
    left_out = f"; {credit.without:,} more without a team" if credit.without else ""
    return [
        _VERDICTS[test.verdict].format(new=new, production=production),
        f"{test.sessions:,} sessions of {test.queries:,} queries{left_out}: {test.new:,.0f} clicks "
        f"on docs of {new} ({test.share:.1%}), {test.production:,.0f} on docs of {production}",
        f"{fixed_text(test.difference, '+.4f')} clicks per session ({test.confidence:.0%} interval "
        f"{range_text(test.low, test.high, '+.4f')}, p = {test.p_value:.2g}, by {test.by})",
    ]
