"""Spellings that were: each is refused with a line that names what is written instead."""

from collections.abc import Sequence
from typing import Any

_CONVERT = "'prsrank convert DATA --relevant-from N --out FILE' keeps it with the data set"
_REPLACED = {
    "--null": 'write nulls = ["WORD"] in the file of --mapping',
    "--decimal": 'write decimal = "," in the file of --mapping',
    "--duplicates": 'write duplicates = "first" in the file of --mapping',
    "--lists": 'write lists = "session" in the file of --mapping',
    "--fold": "write DATA@N for fold N of DATA",
    "--relevant-from": f"{_CONVERT}; with reproduce, write --set relevant_from=N",
    "--runs": "write --set runs=N",
    "--folds": "write --set folds=N",
    "--points": "write --set points=A,B,...",
    "--tune-on": "write --set tune_on=labels or --set tune_on=clicks",
    "--seed": "with train and reproduce, write --set seed=N; in Python: seed=",
    "--no-temper": "in Python: prsrank.fit_log(temper=False)",
    "--cover": "write --shape monotone; in Python: prsrank.covering",
    "--design-k": "write --design DESIGN:K",
    "--ranker": "train a model ('prsrank train') and give it by --model",
    "--holdout": "it is that of the fit, else query:0.2",
    "--eta": "with simulate, write --set eta=VALUE; with propensity, write --method power:ETA",
    "--mu": "write --set mu=VALUE",
    "--cutoff": "write --set cutoff=N",
    "--rankers": "write --production KIND:N",
    "--compact": "an --out without an ending is a folder in the compact form",
}
"""What is written instead of an option that a command had."""


def usage_message(error: Any, arguments: Sequence[str]) -> str:
    """Return the line for words that no command takes; for those of old, it names the new ones."""
    message, option = str(error.format_message()), getattr(error, "option_name", "")
    command = next(iter(arguments), "")
    if command in ("plan-experiment", "plan-test"):
        return f"'{command}' is now '{command.replace('-', ' ')}'"
    if message.startswith("No such option") and option in _REPLACED:
        return f"{option} is no more: {_REPLACED[option]}"
    if option == "--spark" or ("--spark" in arguments and "unexpected extra" in message):
        return "--spark takes no value: write --spark --master URL"
    return message
