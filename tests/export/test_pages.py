"""The pages of the engines: what they tell a person to send is what the engine is sent."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from prsrank.export.formats import FORMATS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.glob("export-*.md"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def test_every_format_has_a_page_that_exports_it():
    shown = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    named = {match[1] for line in shown if (match := re.search(r"^prsrank .*--to (\S+)", line))}
    assert named == set(FORMATS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_is_sent_is_json(page):
    for block in blocks(page, "json"):
        json.loads(block)


def test_own_extractors_take_the_place_of_those_of_the_same_name(tmp_path):
    jq = shutil.which("jq") or pytest.skip("jq is not installed")
    page = DOCS / "export-elastic-ml.md"
    (tmp_path / "extractors.json").write_text(blocks(page, "json")[0])
    names = ["price", "title_bm25", "other"]
    made = [{"query_extractor": {"feature_name": name, "query": "made"}} for name in names]
    config = {"learning_to_rank": {"feature_extractors": made}}
    (tmp_path / "clicks.json").write_text(json.dumps({"inference_config": config}))
    (command,) = [block for block in blocks(page, "sh") if block.startswith("jq ")]
    subprocess.run(["/bin/sh", "-c", command.replace("jq", jq, 1)], cwd=tmp_path, check=True)
    body = json.loads((tmp_path / "upload.json").read_text())
    found = body["inference_config"]["learning_to_rank"]["feature_extractors"]
    queries = {e["query_extractor"]["feature_name"]: e["query_extractor"]["query"] for e in found}
    assert set(queries) == set(names)
    assert queries["other"] == "made"
    assert queries["title_bm25"] == {"match": {"title": "{{query_text}}"}}
