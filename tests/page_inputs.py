"""The files and the Python names that pages speak of, small."""

import shutil
import tomllib
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

import prsrank
from prsrank.cli import run
from prsrank.data.collections import open_collection

DATA = "synthetic:mq2007:60"


def command(words):
    assert run(words.split()) == 0, words


def make(docs):
    """Write all files to this folder; `docs` is the folder of the pages."""
    features = open_collection(DATA).everything().to_frame().drop(columns="label")
    numbers = [name for name in features if name not in ("query_id", "doc_id")]
    features = features.rename(columns={name: f"f{name}" for name in numbers})
    command(f"simulate {DATA} --clicks 3000 --randomised 0.2 --out log.parquet")
    events = pd.read_parquet("log.parquet").query("position <= 10")
    events["device"] = np.where(events["session_id"] % 2, "phone", "desk")
    # one query after the other: else no split by time has queries on one side only
    later = pd.Timestamp(2026, 1, 1) + pd.to_timedelta(events["query_id"], "h")
    events["timestamp"] = later.astype("datetime64[us]")  # Spark reads no nanoseconds
    events["shuffled"] = events["randomised"].fillna("") != ""
    joined = events.merge(features, on=["query_id", "doc_id"])
    _logs(events, joined)
    named = features.assign(
        title="Doc " + features["doc_id"].astype(str), url="https://example.org"
    )
    named.to_parquet("features.parquet")
    shutil.copy(docs / "expedia.toml", "searches.toml")
    _hotels(joined, tomllib.loads((docs / "expedia.toml").read_text())["features"]["columns"])
    _yandex(events)
    _interleaved(events)
    _models()


def _logs(events, joined):
    # few features, for what each of them takes on Spark
    joined[[*events, "f1", "f2", "f3"]].to_parquet("log.parquet")
    joined.to_parquet("new.parquet")
    events.to_parquet("shuffled.parquet")
    events[~events["shuffled"]].to_parquet("plain.parquet")
    Path("logs").mkdir()
    for copy in ("logs", "week.parquet", "yesterday.parquet"):
        shutil.copy("log.parquet", copy)
    Path("log.toml").write_text('[features]\ncolumns = ["f*"]\n')
    searches = {"srch_id": "query_id", "visit": "session_id", "prop_id": "doc_id"}
    renamed = events.assign(**{name: events[of] for name, of in searches.items()})
    renamed.drop(columns=["query_id", "session_id"]).to_csv("searches.csv", index=False)


def _hotels(joined, columns):
    """Hotel searches as Expedia's: every session is a query, and the features have their names."""
    names = [c.replace("?", str(n)) for c in columns for n in range(1, 9 if "?" in c else 2)]
    rows = joined.rename(columns={f"f{n}": name for n, name in enumerate(names, 1)})
    rows["srch_id"] = rows["query_id"].astype(str) + "-" + rows["session_id"].astype(str)
    rows = rows[rows["srch_id"].isin(rows["srch_id"].unique()[::10])]
    rows = rows.rename(columns={"doc_id": "prop_id", "click": "click_bool"})
    rows["random_bool"] = rows["shuffled"]
    rows["booking_bool"] = rows["click_bool"] & (rows["session_id"] % 3 == 0)
    rows["date_time"], rows["site_id"], rows["click"] = rows["timestamp"], 5, rows["click_bool"]
    rows = rows.drop(columns=["query_id", "session_id", "randomised", "timestamp"])
    Path("searches").mkdir()
    for name in ("expedia.parquet", "searches.parquet", "searches/one.parquet"):
        rows.to_parquet(name)


def _yandex(events):
    events.to_parquet("yandex_events.parquet")
    top = events[events["position"] <= 10].sort_values(["query_id", "session_id", "position"])
    sessions = top.groupby(["query_id", "session_id"]).agg(
        docs=("doc_id", list), clicked=("click", list)
    )
    sessions = sessions.reset_index().rename(columns={"query_id": "query"})
    sessions["split"] = np.where(sessions["session_id"] % 4, "train", "test")
    sessions.drop(columns="session_id").to_parquet("yandex_wscd_sample.parquet")


def _interleaved(events):
    top = events[events["position"] <= 4]
    team = np.where((top["position"] + top["session_id"]) % 2, "new", "current")
    top.assign(team=team).to_parquet("test.parquet")


def _models():
    command("propensity log.parquet --method randomised --shape monotone --out propensity.json")
    shutil.copy("propensity.json", "p.json")
    given = f"log.parquet --data {DATA} --propensity propensity.json --set trees=5"
    command(f"train {given} --out model")
    for name in ("prs", "naive"):
        shutil.copytree("model", name)
    command("split log.parquet --out parts")
    shutil.copy("parts/held_out.parquet", "held_out.parquet")
    fit = "fit log.parquet --features features.parquet --trials 1 --trees 5 --force --out"
    command(f"{fit} fitted")
    shutil.copytree("fitted", "run")
    Path("vespa-names.txt").write_text("".join(f"f{n}\n" for n in range(1, 47)))


def names():
    """The Python names that pages take as given."""
    events, table = duckdb.read_parquet("log.parquet"), duckdb.read_parquet("features.parquet")
    docs = table.project("* EXCLUDE (title, url)").df()
    lists, log = prsrank.RankingDataset.from_frame(docs), prsrank.read_click_log("log.parquet")
    curve = prsrank.covering(prsrank.Propensities.load("propensity.json"), log.max_position)
    judged = open_collection(DATA).everything()
    return {
        **{"docs": docs, "lists": lists, "data": lists, "features": lists.features},
        **{"frame": events.df(), "clicks": events.df(), "log": log},
        **{"curve": curve, "propensities": curve, "judged": judged},
    }
