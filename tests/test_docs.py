"""The documentation: a page per command that says what the command says, links, and the site."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer

import prsrank
from prsrank.cli import COMMANDS as NAMES
from prsrank.cli import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAV = [DOCS / page for page in re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text())]
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def command(name: str) -> Any:
    """The command of a name, which is two words where there is a group."""
    made: Any = typer.main.get_command(app)
    for word in name.split():
        made = made.get_command(None, word)
    return made


COMMANDS = {name: command(name) for name in NAMES}

_FENCE = re.compile(r"^( *)(`{3,})([\w-]*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def page_of(name: str) -> Path:
    return DOCS / "commands" / f"{name.replace(' ', '-')}.md"


def options_of(name: str) -> set[str]:
    """All spellings of a command's options, without --help."""
    options = [p for p in COMMANDS[name].params if p.param_type_name == "option"]
    return {word for p in options for word in (*p.opts, *p.secondary_opts)} - {"--help", "-h"}


def without_fences(text: str) -> str:
    return _FENCE.sub("", text)


def option_rows(name: str) -> dict[str, list[str]]:
    """The rows of the page's table of options: what stands in the first cell -> all cells."""
    text = page_of(name).read_text()
    section = re.search(r"^## Options\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"{name}: no section Options"
    rows = [line for line in section[1].splitlines() if line.startswith("| `")]
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return {" ".join(_INLINE.findall(row[0])): row for row in cells}


def own_mentions(text: str) -> set[str]:
    """Options that a page names in its text, but for those of a spelt-out `prsrank COMMAND`."""
    codes = _INLINE.findall(without_fences(text))
    return {o for code in codes if not code.startswith("prsrank ") for o in _OPTION.findall(code)}


def named(words: list[str]) -> tuple[str, list[str]]:
    """The command that words begin with, and the rest of them."""
    two = " ".join(words[:2])
    return (two, words[2:]) if two in COMMANDS else (words[0], words[1:])


def shown_commands(text: str) -> Iterator[list[str]]:
    """The words of each `prsrank ...` line in the blocks of a page."""
    for _, _, language, block in _FENCE.findall(text):
        if language not in ("", "sh", "bash", "console"):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            line = line.strip().removeprefix("$ ")
            if line.startswith("prsrank ") and not line.startswith("prsrank: "):
                words = shlex.split(line, comments=True)
                ends = [i for i, word in enumerate(words) if word in ("|", ">", "&&", "<")]
                yield words[1 : ends[0] if ends else None]


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    pages = {path.stem for path in (DOCS / "commands").glob("*.md")}
    assert pages == {name.replace(" ", "-") for name in COMMANDS}
    assert {path.stem for path in NAV if path.parent.name == "commands"} == pages


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_page_names_the_options_of_its_command_and_no_others(name: str) -> None:
    table = {option for cell in option_rows(name) for option in _OPTION.findall(cell)}
    assert table == options_of(name)
    assert own_mentions(page_of(name).read_text()) <= options_of(name)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_page_gives_the_defaults_of_its_command(name: str) -> None:
    rows = option_rows(name)
    for parameter in COMMANDS[name].params:
        if "--help" in parameter.opts:
            continue
        label = next((o for o in parameter.opts if o.startswith("--")), parameter.metavar)
        found = [r for cell, r in rows.items() if re.match(rf"{re.escape(label)}( |$)", cell)]
        assert len(found) == 1, f"{label} is in {len(found)} rows"
        stated, default = found[0][-1].replace("`", ""), parameter.default
        assert (stated == "required") == parameter.required, f"{label}: {stated}"
        if isinstance(default, bool):
            assert stated == (f"--{parameter.name}" if default else "off")
        elif isinstance(default, int | float):
            assert float(stated) == default, f"{label}: {stated}, but it is {default}"
        elif isinstance(default, str | Path):
            assert stated.startswith(str(default)), f"{label}: {stated}, but it is {default}"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_page_has_an_example_of_its_command_and_says_the_exit_codes(name: str) -> None:
    text = page_of(name).read_text()
    assert text.startswith(f"# prsrank {name}\n")
    assert [words for words in shown_commands(text) if named(words)[0] == name]
    assert "\n## Errors\n" in text
    assert "\n## Read on\n" in text
    assert "Exit codes: 0" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shown_commands_can_be_called_so(page: Path) -> None:
    text = page.read_text()
    for words in shown_commands(text):
        name, arguments = named(words)
        assert name in COMMANDS, f"prsrank {name}"
        # parses and checks all arguments, and calls nothing
        COMMANDS[name].make_context(name, arguments)
    for code in _INLINE.findall(without_fences(text)):
        if re.match(r"prsrank [a-z]", code):
            name, _ = named(code.split()[1:])
            assert name in {*COMMANDS, "plan"}, code
            if name in COMMANDS:
                assert set(_OPTION.findall(code)) <= options_of(name) | {"--help"}, code


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as both the site and GitHub make them."""
    titles = re.findall(r"^#+ +(.+?) *$", without_fences(page.read_text()), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", t).strip().lower()) for t in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = _INLINE.sub("", without_fences(page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            address = urlsplit(target)
            assert address.scheme == "https", f"{target}: not by https"
            assert re.fullmatch(r"([\w-]+\.)+[a-z]{2,}", address.netloc), f"{target}: no host"
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_file(), f"{target}: no such file"
        if anchor:
            assert anchor in anchors_of(file), f"{target}: no such heading"


def test_the_reference_has_every_public_name_once_and_no_words_of_its_own() -> None:
    text = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert sorted(lines) == [f"::: prsrank.{name}" for name in prsrank.__all__]


def test_the_page_on_installing_names_the_extras_that_there_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"^\| `prsrank\[(\w+)\]`", (DOCS / "install.md").read_text(), re.MULTILINE)
    assert set(named) == set(project["optional-dependencies"])


class Loads(HTMLParser):
    """Collects what a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        names = ["src", "srcset", "data", "poster"]
        if tag == "link" and values.get("rel") != "canonical":
            names.append("href")
        self.addresses += [values[name] for name in names if name in values]
        self.addresses += re.findall(r"url\(['\"]?([^'\")]+)", values.get("style", ""))


def loaded_by(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".css":
        return re.findall(r"(?:url\(|@import) *['\"]?([^'\")\s;]+)", text)
    parser = Loads()
    parser.feed(text)
    return parser.addresses


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    # not --quiet: it hides warnings from --strict too
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_site_is_built_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in NAV:
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file()
    files = [f for f in site.rglob("*") if f.suffix in (".html", ".css")]
    loaded = [(f.name, address) for f in files for address in loaded_by(f)]
    assert any(address.endswith(".css") for _, address in loaded)
    outside = [(f, a) for f, a in loaded if re.match(r"(https?:)?//", a, re.IGNORECASE)]
    assert not outside


def test_the_reference_shows_docstrings_with_their_formulas_and_examples(site: Path) -> None:
    text = "".join(file.read_text() for file in (site / "api").glob("*.html"))
    for name in prsrank.__all__:
        assert f'id="prsrank.{name}"' in text
    assert "<math" in text
    # a formula that was not drawn, and a doctest that Markdown took for a quotation
    assert not re.search(r"\$[^$<]*[\\_{][^$<]*\$", text)
    assert "<blockquote>" not in text


def test_files_that_a_page_offers_are_on_the_site(site: Path) -> None:
    for file in DOCS.glob("*.toml"):
        assert (site / file.name).read_text() == file.read_text()
