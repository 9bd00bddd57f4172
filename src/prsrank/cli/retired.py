"""Spellings that were: each is refused with a line that names what is written instead."""

import re
from collections.abc import Sequence
from itertools import pairwise

from prsrank.errors import InputError

_COMMANDS = {"plan-experiment": "plan experiment", "plan-test": "plan test"}
_MASTER = re.compile(r"default|local(\[.*)?|yarn|(spark|k8s|mesos)://.*")
"""What followed --spark before it was a flag."""

_JUDGE = "explore evaluate rank judge monitor sensitivity"
_REST = f"{_JUDGE} split interleave plan-experiment plan-test"
_LOGS = f"audit fit propensity train {_REST}"
_MAPPING = "write {} in the file of --mapping"
_FOLD = "write DATA@N for fold N of DATA"
_MODEL = "train a model ('prsrank train') and give it by --model"
_OPTIONS = (
    ("--null", _LOGS, _MAPPING.format('nulls = ["WORD"]')),
    ("--decimal", _LOGS, _MAPPING.format('decimal = ","')),
    ("--duplicates", _LOGS, _MAPPING.format('duplicates = "first"')),
    ("--lists", "fit train sensitivity", _MAPPING.format('lists = "session"')),
    ("--memory", _REST, "it is 80 % of the machine's; in Python: memory="),
    ("--fold", "explore evaluate rank propensity train simulate", _FOLD),
    (
        "--relevant-from",
        "fit explore evaluate rank judge propensity train sensitivity demo simulate describe",
        "'prsrank convert DATA --relevant-from N --out FILE' keeps it with the data set",
    ),
    ("--relevant-from", "reproduce", "write --set relevant_from=N"),
    ("--runs", "reproduce", "write --set runs=N"),
    ("--folds", "reproduce", "write --set folds=N"),
    ("--points", "reproduce", "write --set points=A,B,..."),
    ("--tune-on", "reproduce", "write --set tune_on=labels or --set tune_on=clicks"),
    ("--seed", "train reproduce", "write --set seed=N"),
    ("--seed", "explore judge propensity plan-test sensitivity demo", "in Python: seed="),
    ("--temper", "fit", "it is so unless Python says prsrank.fit_log(temper=False)"),
    ("--no-temper", "fit", "in Python: prsrank.fit_log(temper=False)"),
    ("--propensity", "explore", "the curve is that of the fit"),
    ("--data", "demo", "'prsrank simulate DATA' and 'prsrank fit' show the same of other data"),
    ("--data", "explore monitor", "the features are those of the fit, or give --features"),
    ("--column", "explore monitor", "columns are those of the fit, or give --mapping"),
    ("--evidence", "judge", "it is 1; a Parquet file has 'seen' to leave out more by"),
    ("--split", "rank", "the lists are those of the test part; a file is one whole"),
    ("--tau", "evaluate", "in Python: prsrank.evaluate_on_log(tau=)"),
    ("--samples", "evaluate", "in Python: prsrank.evaluate_on_log(samples=)"),
    ("--json", "export", "the line that is printed says the same"),
    ("--eta", "propensity", "write --method power:ETA"),
    ("--positions", "propensity", "in Python: the estimator's positions="),
    ("--cover", "propensity", "write --shape monotone; in Python: prsrank.covering"),
    ("--design-k", "simulate plan-experiment", "write --design DESIGN:K"),
    ("--confidence", "plan-experiment interleave", "intervals are at 95 %"),
    ("--level", "plan-test", "the test is at the 5 % level"),
    ("--report", "train", "the report is always written"),
    ("--no-report", "train", "the report is always written"),
    ("--ranker", "sensitivity", _MODEL),
    ("--set", "sensitivity", _MODEL),
    ("--holdout", "sensitivity", "it is that of the fit, else query:0.2"),
    ("--metric", "sensitivity", "it is dcg@10"),
    ("--eta", "simulate", "write --set eta=VALUE"),
    ("--mu", "simulate", "write --set mu=VALUE"),
    ("--cutoff", "simulate", "write --set cutoff=N"),
    ("--rankers", "simulate", "write --production KIND:N"),
    ("--compact", "simulate", "an --out without an ending is a folder in the compact form"),
)


def refuse_old_spellings(arguments: Sequence[str]) -> None:
    """Raise an InputError for a spelling that was."""
    command = next(iter(arguments), "")
    if command in _COMMANDS:
        raise InputError(f"'{command}' is now '{_COMMANDS[command]}'")
    command = "-".join(arguments[:2]) if command == "plan" else command
    for word, after in pairwise([*arguments, ""]):
        option, _, value = word.partition("=")
        if option == "--spark" and _MASTER.fullmatch(value or after):
            raise InputError(f"--spark takes no value: write --spark --master {value or after}")
        for old, commands, instead in _OPTIONS:
            if option == old and command in commands.split():
                raise InputError(f"{option} is no more: {instead}")
