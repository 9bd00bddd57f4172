"""Every block of every page runs, page by page, on small inputs of the same names; or it says why not."""

import json
import re
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path

import duckdb
import pytest

import prsrank.cli.demo
import prsrank.cli.fit  # before the pages' fit_log is another
import prsrank.fit
from prsrank.cli import run
from prsrank.logs.mapping import read_mapping

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "spark"))
from spark_checks import SMALL as SPARK_SMALL
from spark_checks import require_spark

import page_inputs

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n)?```(?P<language>[a-z]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# what a line leaves open, so that it is quick; and what a trained model needs, for later lines to find it
SMALL = {
    "fit": {"--trials": "1", "--trees": "5", "--weighting": "prs", "--force": None},
    "demo": {"--clicks": "1000"},
}
QUICK = {"trials": 1, "trees": 5, "weighting": "prs"}
# these have something to say by their exit code 1
VERDICTS = {"audit", "fit", "monitor", "propensity"}
# whole fits and experiments, one after the other
SPARK = DOCS / "spark.md"
SLOW = {DOCS / "tutorial.md", DOCS / "commands" / "reproduce.md", SPARK}
# tests of their own run these and look at what comes out (test_python_pages.py)
ELSEWHERE = {DOCS / "drop-in.md", DOCS / "python.md"}


def blocks(page):
    """Each block of a page: why it is not run ("" if it is), its language, its text, what is before."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        yield found["why"] or "", found["language"], found["text"], text[: found.start()]


def smaller(text):
    text = re.sub(r"synthetic:\w+:\d+|(?<=--data )DATA\b", page_inputs.DATA, text)
    text = text.replace("hdfs:///logs/2026/", "logs")
    return re.sub(r"(?<=--clicks )\d+", "1500", text)


def run_line(line):
    """Run one line of a shell: `prsrank COMMAND ...`, a note behind it or not."""
    program, name, *words = shlex.split(smaller(line), comments=True)
    assert program == "prsrank", f"only prsrank is run: {line}"
    for option, value in SMALL.get(name, {}).items():
        if option not in words and "--from" not in words:
            words += [option] if value is None else [option, value]
    code = run([name, *words])
    assert code == 0 or (code == 1 and name in VERDICTS), f"{line}: exit code {code}"


def run_sh(text, before, known):
    for line in text.replace("\\\n", " ").splitlines():
        run_line(line)


def run_console(text, before, known):
    for line in text.splitlines():
        if line.startswith("$ "):
            run_line(line[2:])


def run_python(text, before, known):
    if "SparkEngine(spark)" in text:
        known["spark"] = spark_session()
    exec(compile(smaller(text), "<page>", "exec"), known)  # noqa: S102


def run_sql(text, before, known):
    with duckdb.connect() as connection:
        connection.execute(text)


def run_toml(text, before, known):
    """A mapping, which is the file that the page named last; offered as a file, it is the same."""
    name = re.findall(r"[\w-]+\.toml", before)[-1]
    Path(name).write_text(text)
    read_mapping(name)
    if (DOCS / name).exists():
        assert text == (DOCS / name).read_text()


def run_json(text, before, known):
    json.loads(text)


RUN = {
    **{"sh": run_sh, "console": run_console, "python": run_python},
    **{"sql": run_sql, "toml": run_toml, "json": run_json},
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page):
    for _, language, text, _ in blocks(page):
        assert language in {*RUN, "text"}, text
    # no block, and no mark, that the tests do not see
    text = page.read_text()
    assert 2 * len(list(blocks(page))) == len(re.findall(r"^ *```", text, re.MULTILINE))
    assert sum(bool(why) for why, *_ in blocks(page)) == text.count("<!-- not run")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages") / "inputs"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        page_inputs.make(DOCS)
    return folder


def to_run(page):
    return [block[1:] for block in blocks(page) if not block[0] and block[1] in RUN]


def start_java_here(folder, monkeypatch):
    """Leave a Java that tests before this one started, which keeps its folder; and let it be small."""
    require_spark()
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None
    settings = "".join(f"{name} {value}\n" for name, value in SPARK_SMALL.items())
    (folder / "spark-defaults.conf").write_text(settings)
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))


def spark_session():
    from pyspark.sql import SparkSession

    return SparkSession.builder.master("local[2]").getOrCreate()


def pages_to_run():
    for page in PAGES:
        if to_run(page) and page not in ELSEWHERE:
            marks = [pytest.mark.slow] if page in SLOW else []
            marks += [pytest.mark.spark] if page == SPARK else []
            yield pytest.param(page, marks=marks, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize("page", list(pages_to_run()))
def test_blocks_run(page, inputs, tmp_path, monkeypatch):
    folder = tmp_path / "page"
    shutil.copytree(inputs, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(prsrank.fit, "fit_log", partial(prsrank.fit.fit_log, **QUICK))
    monkeypatch.setattr(prsrank.cli.demo, "_TRIALS", QUICK["trials"])
    monkeypatch.setattr(prsrank.cli.demo, "_TREES", QUICK["trees"])
    monkeypatch.setattr(prsrank.cli.demo, "_DATA", page_inputs.DATA)
    if page == SPARK:
        start_java_here(tmp_path, monkeypatch)
    known = page_inputs.names() if "```python" in page.read_text() else {}
    for language, text, before in to_run(page):
        RUN[language](text, before, known)
