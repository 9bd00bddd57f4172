"""An audit as text, as a section of the report, and what the documentation says of it."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from prsrank.audit.catalogue import KINDS
from prsrank.audit.findings import as_text
from prsrank.report.audit_section import report, section, wilson_interval
from prsrank.report.html import report_html

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from report_checks import check_report

EVIL = "<script>alert('x')</script>"
DOCS = Path(__file__).parents[2] / "docs" / "audit.md"


@pytest.fixture
def evil(clean):
    """Return events with HTML in ids and in the name of a feature, and a fault that shows them."""
    doc = clean["doc_id"].astype(str).astype(object)
    doc[0] = EVIL
    position = clean["position"].copy()
    position[0] = -1
    return clean | {"doc_id": doc, "position": position, EVIL: np.zeros(len(doc))}


def test_text_says_verdict_findings_and_estimators(clean, audited):
    lines = as_text(audited(clean)).splitlines()
    assert lines[0] == "verdict: ready"
    assert any(line.split() == ["sessions", "3,000"] for line in lines)
    assert any(line.split()[:2] == ["harvest", "identified"] for line in lines)
    assert max(map(len, lines)) < 120


def test_text_keeps_control_characters_from_the_terminal(clean, audited):
    doc = clean["doc_id"].astype(str).astype(object)
    doc[0] = "a\x1b[31m\nb"
    position = clean["position"].copy()
    position[0] = -1
    text = as_text(audited(clean | {"doc_id": doc, "position": position}))
    assert "\x1b" not in text
    assert "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b" in text


def test_section_fits_the_report(clean, audited):
    time = clean["session_id"] * 3_600_000_000 + 1_700_000_000_000_000
    found = audited(clean | {"timestamp": time})
    page = report(found, log="log.parquet")
    check_report(page)
    assert page["sections"] == [section(found)]
    rates = section(found)["figures"][0]["panels"][0]["series"][0]
    assert rates["y"] == [at.ctr for at in found.positions]


@pytest.mark.parametrize(("clicks", "shown"), [(0, 27), (5, 5), (3, 40), (700, 1000)])
def test_interval_is_wilsons(clicks, shown):
    other = binomtest(clicks, shown).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(wilson_interval(clicks, shown), other, atol=1e-6)


def test_section_of_an_empty_log(clean, audited):
    empty = {name: values[:0] for name, values in clean.items()}
    found = audited(empty)
    check_report(report(found, log="log.parquet"))
    assert found.findings[0].code == "empty-log"


def test_html_in_ids_and_names_is_escaped(evil, audited):
    found = audited(evil, features=[EVIL])
    assert any(EVIL in finding.where for finding in found.findings)
    page = report_html(report(found, log=EVIL))
    assert EVIL not in page
    assert "&lt;script&gt;alert(" in page


def test_html_file_of_the_command(evil, tmp_path, run, capsys):
    log = tmp_path / "log.csv"
    names = ["query_id", "session_id", "doc_id", "position", "click"]
    rows = zip(*(evil[name][:800] for name in names), strict=True)
    log.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]))
    assert run("audit", log, "--html", tmp_path / "audit.html") == 1
    assert "position-below-one" in capsys.readouterr().out
    page = (tmp_path / "audit.html").read_text()
    assert "position-below-one" in page
    assert EVIL not in page


def test_every_kind_is_documented():
    text = DOCS.read_text()
    for code, kind in KINDS.items():
        assert f"`{code}`" in text
        assert kind.fix
