import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from prsrank.cli.export import export
from prsrank.cli.options import with_groups
from prsrank.data.dataset import RankingDataset
from prsrank.errors import InputError
from prsrank.pairs.pair_set import PairSet
from prsrank.rankers.lambdamart import LambdaMART

app = typer.Typer()
app.command()(with_groups(export))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    data = RankingDataset(x, np.arange(0, 401, 10), labels=(x[:, 0] > 0.5).astype(np.float32))
    ranker = LambdaMART(trees=5, threads=1)
    ranker.fit(data, PairSet.from_labels(data, **ranker.pair_options))
    folder = tmp_path_factory.mktemp("export") / "model"
    ranker.save(folder)
    return folder, ranker, x


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=True)


def test_round_trip(model, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    folder, ranker, x = model
    (tmp_path / "names.txt").write_text("title\nprice\nage\n")
    out = tmp_path / "new" / "m.json"
    names = ("--feature-names", tmp_path / "names.txt")
    result = invoke(folder, "--to", "xgboost", "--out", out, *names)
    assert result.exit_code == 0, result.output
    size = out.stat().st_size
    assert result.stdout == f"{out}: lambdamart of 3 features as xgboost, {size:,} bytes\n"
    booster = xgboost.Booster(model_file=out)
    scores = booster.predict(xgboost.DMatrix(x, feature_names=["title", "price", "age"]))
    assert np.abs(scores - ranker.score(x)).max() < 1e-6


def test_says_what_it_wrote(model, tmp_path):
    out = tmp_path / "m.txt"
    result = invoke(model[0], "--to", "ranklib", "--out", out)
    assert (
        result.stdout
        == f"{out}: lambdamart of 3 features as ranklib, {out.stat().st_size:,} bytes\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--to", "pickle"), "no format 'pickle'"),
        (("--to", "solr", "--name", ""), "name is empty"),
        (("--to", "solr", "--feature-names", "nowhere.txt"), "nowhere.txt: no such file"),
    ],
)
def test_refusals_leave_nothing(model, tmp_path, arguments, says):
    result = invoke(model[0], "--out", tmp_path / "out" / "m", *arguments)
    assert isinstance(result.exception, InputError)
    assert says in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_no_model_there(tmp_path):
    result = invoke(tmp_path, "--to", "solr", "--out", tmp_path / "m.json")
    assert "is not a saved ranker" in str(result.exception)
