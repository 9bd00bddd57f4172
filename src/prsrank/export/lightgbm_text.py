"""LightGBM's own text format: the model as it is, with the features' names."""

import re

from prsrank.export.formats import Exportable

_REFUSED = ' \t\n\r",:[]{}'


def write_lightgbm(model: Exportable) -> bytes:
    """Return a model that `lightgbm.Booster(model_file=...)` reads.

    It says `objective=regression`, the one under which LightGBM and the converters of other
    libraries return the sum of the leaves as it is: they do not read a model without any.
    """
    ensemble = model.trees("LightGBM trees", "use elasticsearch, opensearch, ranklib, solr or onnx")
    model.refuse_characters(_REFUSED, "LightGBM")
    names = model.feature_names
    head, mark, tail = ensemble.text.partition("\nend of trees\n")
    old = re.search(r"^feature_names=(.*)$", head, re.MULTILINE)
    renamed = dict(zip(old.group(1).split(" ") if old else (), names, strict=False))
    head = re.sub(
        r"^feature_names=.*$",
        lambda _: "feature_names=" + " ".join(names),
        head,
        count=1,
        flags=re.MULTILINE,
    )
    if not re.search(r"^objective=", head, re.MULTILINE):
        head = head.replace("\nfeature_names=", "\nobjective=regression\nfeature_names=", 1)
    importances, end, rest = tail.partition("\nparameters:")
    lines = [_renamed(line, renamed) for line in importances.split("\n")]
    return (head + mark + "\n".join(lines) + end + rest).encode()


def _renamed(line: str, names: dict[str, str]) -> str:
    name, equals, count = line.rpartition("=")
    return names.get(name, name) + equals + count
