"""Files of every kind that we read, altered at random: read, or refused in one line."""

import copy
import json
import random
import tomllib
from pathlib import Path

import numpy as np
import pytest

from prsrank.data.storage import StoredCollection, read_stored, write_stored
from prsrank.data.synthetic import synthetic_dataset
from prsrank.errors import InputError
from prsrank.experiment.spec_files import _folder, load_spec, parse_spec
from prsrank.files.schema import check
from prsrank.fit.manifest import FORMAT, check_inputs, read_manifest
from prsrank.fit.plan import Plan
from prsrank.logs.mapping import _checked, _File, read_mapping
from prsrank.propensity.curve import Propensities

_VALUES = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "../x",
    [],
    {},
    [1],
    ["x"],
    {"a": 1},
    [[]],
    "1e999",
)


def changed(value, rng: random.Random):
    """Return a copy in which one or two values, keys or lengths differ."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        at, key = value, rng.choice(list(value))
        while isinstance(at[key], dict | list) and at[key] and rng.random() < 0.7:
            at = at[key]
            key = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
        how = rng.randrange(4)
        if how == 0 and isinstance(at, dict):
            del at[key]
            if not value:
                return value
        elif how == 1 and isinstance(at, dict):
            at[rng.choice(("x", "", "é\x1b", "propensity", "contexts"))] = rng.choice(_VALUES)
        else:
            at[key] = copy.deepcopy(rng.choice(_VALUES))
    return value


def read_or_refuse(read, *arguments) -> bool:
    """Call a reader; tell whether it took the file. Anything but an InputError of one line fails."""
    try:
        read(*arguments)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return False
    return True


def plan_of(file: Path) -> None:
    manifest = read_manifest(file)
    plan = Plan.from_json_dict(manifest["settings"], file)
    check_inputs(manifest["inputs"], {role: [] for role in plan.inputs()}, plan)


@pytest.fixture
def files(tmp_path):
    """An example of each kind of JSON file, with its reader."""
    curve = {
        "propensity": [1, 0.5],
        "low": [1, None],
        "high": [1, 0.7],
        "clicks": [8, 4],
        "verdict": "x",
    }
    plan = Plan("log.parquet", data="synthetic:mq2007:50").to_json_dict()
    hashed = [{"file": "log.parquet", "bytes": 3, "sha256": "0" * 64}]
    manifest = {
        "format": FORMAT, "settings": json.loads(json.dumps(plan)), "inputs": {"log": hashed},
        "versions": {"python": "3.12"}, "outputs": {"model/model.txt": "0" * 64}, "engine": {}, "chosen": {},
    }  # fmt: skip
    return {
        "curve": (curve | {"contexts": {"tv": curve}}, Propensities.load),
        "manifest": (manifest, plan_of),
    }


@pytest.mark.parametrize("kind", ["curve", "manifest"])
def test_json_of_another_shape(kind, files, tmp_path):
    value, read = files[kind]
    rng, file, refused = random.Random(1), tmp_path / "x.json", 0  # noqa: S311
    file.write_text(json.dumps(value))
    if kind == "curve":
        read(file)
    for _ in range(1500):
        file.write_text(json.dumps(changed(value, rng)))
        refused += not read_or_refuse(read, file)
    assert refused > 500


@pytest.mark.parametrize("kind", ["curve", "manifest"])
def test_json_with_other_bytes(kind, files, tmp_path):
    value, read = files[kind]
    rng, file = random.Random(2), tmp_path / "x.json"  # noqa: S311
    text = json.dumps(value).encode()
    for _ in range(500):
        content = bytearray(text)
        for _ in range(rng.choice((1, 3))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        file.write_bytes(bytes(content[: rng.choice((len(content), rng.randrange(len(content))))]))
        read_or_refuse(read, file)


_MAPPING = {
    "positions_from": 0, "context": ["device"], "random": "r", "columns": {"query_id": "q"},
    "actions": {"click": 1, "purchase": 10}, "features": {"columns": ["price"], "table": "f.parquet"},
}  # fmt: skip


def test_mappings_of_another_shape(tmp_path):
    def mapping(content):
        check(content, _File, "log.toml")
        return _checked(content, tmp_path)

    rng = random.Random(3)  # noqa: S311
    mapping(_MAPPING)
    for _ in range(1500):
        read_or_refuse(mapping, changed(_MAPPING, rng))


@pytest.mark.parametrize("name", ["fig1", "fig3", "table1"])
def test_experiments_of_another_shape(name):
    rng = random.Random(4)  # noqa: S311
    spec = tomllib.loads((_folder() / f"{name}.toml").read_text())
    parse_spec(spec)
    refused = sum(not read_or_refuse(parse_spec, changed(spec, rng)) for _ in range(700))
    assert refused > 200


@pytest.mark.parametrize("read", [read_mapping, load_spec, Propensities.load, read_manifest])
def test_what_is_no_file_is_not_read(read, tmp_path):
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is a device"):
        read(str(tmp_path / "zero.toml"))
    (tmp_path / "deep.toml").write_text("a = " + "[" * 50_000)
    with pytest.raises(InputError, match=r"nested too deep|is not valid"):
        read(str(tmp_path / "deep.toml"))


def test_stored_collections_with_other_bytes(tmp_path):
    data = synthetic_dataset("mq2007", 5)
    file = tmp_path / "data"
    write_stored(StoredCollection("x", data, np.full(5, -1)), file)
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    rng = random.Random(5)  # noqa: S311
    for case in range(300):  # test_fuzz.py has more
        # mostly the header, whose numbers say where arrays lie
        altered, last = bytearray(content), end if case % 3 else len(content)
        for _ in range(rng.choice((1, 3))):
            altered[rng.randrange(last)] = rng.choice((*b'0123456789-[]{}",', rng.randrange(256)))
        file.write_bytes(bytes(altered))
        read_or_refuse(read_stored, file)
