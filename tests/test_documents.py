"""README and the guide: every block of code runs, every command and link is there."""

import ast
import doctest
import importlib.util
import re
import shlex
import shutil
import sys
import tomllib
import types

import pytest
from _pages import ROOT, SHELL, Block, Page, all_pages, read_page

PAGES = all_pages()
RUN = [page for page in PAGES if any(block.not_run is None for block in page.of_language("python"))]
NOT_RUN = [page for page in PAGES if any(block.not_run is not None for block in page.of_language("python"))]
WITH_LINKS = [page for page in PAGES if page.links()]
# Pages that fit for seconds; `.ci/run` runs them too
LONG = {
    "README.md",
    "doc/choosing_a_sampler.md",
    "doc/extending/calibration.md",
    "doc/extending/emission.md",
    "doc/extending/manifold.md",
    "doc/extending/model.md",
    "doc/extending/sampler.md",
    "doc/getting_started/directions.md",
    "doc/getting_started/tables.md",
    "doc/getting_started/texts.md",
    "doc/index.md",
    "doc/reproducibility.md",
    "doc/user_guide/choosing_direction_models.md",
    "doc/user_guide/coming_from.md",
    "doc/user_guide/densities.md",
    "doc/user_guide/diagnostics.md",
    "doc/user_guide/direction_clusters.md",
    "doc/user_guide/directions.md",
    "doc/user_guide/exponential_families.md",
    "doc/user_guide/faq.md",
    "doc/user_guide/held_out.md",
    "doc/user_guide/inputs.md",
    "doc/user_guide/mixtures.md",
    "doc/user_guide/number_of_topics.md",
    "doc/user_guide/orthogonal_topics.md",
    "doc/user_guide/pictures_and_exports.md",
    "doc/user_guide/pitfalls.md",
    "doc/user_guide/subspaces.md",
    "doc/user_guide/tables.md",
    "doc/user_guide/topic_models.md",
}
# What is installed by extras that the README's test command does not ask for
OPTIONAL = {"matplotlib", "pyLDAvis", "tomotopy", "gensim", "stepmix", "dask", "arviz_base", "arviz_stats", "pandas"}
OPTIONAL |= {"polars"}


def by_name(pages):
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.name)


def run_page(page: Page) -> None:
    """Run a page's blocks from top to bottom, as one program would."""
    module = types.ModuleType("page")
    sys.modules["page"] = module  # for pickle, which looks classes up
    try:
        for block in page.of_language("python"):
            if block.not_run is None:
                _run_block(block, page, module.__dict__)
    finally:
        del sys.modules["page"]


def _run_block(block: Block, page: Page, names: dict) -> None:
    if block.is_session:
        test = doctest.DocTestParser().get_doctest(block.code, names, page.path.name, str(page.path), block.line - 1)
        runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
        runner.run(test, clear_globs=False)
        names.update(test.globs)
        return
    # As many empty lines before as there are on the page, so that a traceback shows the page's own line.
    tree = ast.parse("\n" * (block.line - 1) + block.code, str(page.path))
    exec(compile(tree, str(page.path), "exec"), names)


def _missing_extra(error: ImportError) -> str | None:
    """The optional package that is not installed, if that is what is wrong."""
    absent = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    words = re.sub("-", "_", str(error))
    return next((name for name in absent if name == error.name or name in words), None)


@pytest.mark.short_cases(*(page.name for page in RUN if page.name not in LONG))
@by_name(RUN)
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    try:
        run_page(page)
    except ImportError as error:
        if (name := _missing_extra(error)) is None:
            raise
        pytest.skip(f"{page.name} needs {name}, which is not installed")
    finally:
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


@by_name(NOT_RUN)
def test_blocks_that_are_not_run_say_why(page):
    skipped = [block for block in page.of_language("python") if block.not_run is not None]
    assert all(block.not_run for block in skipped), "`<!-- not run: -->` needs a reason"
    for block in skipped:
        ast.parse(block.code)
    reasons = "; ".join(f"line {block.line}, {block.not_run}" for block in skipped)
    pytest.skip(f"{page.name}: {len(skipped)} of {len(page.of_language('python'))} blocks not run: {reasons}")


def broken_links(page: Page) -> list[str]:
    """What is wrong with a page's links, each with its line."""
    pages = {other.path: other for other in PAGES}
    broken = []
    for line, target in page.links():
        path, _, anchor = target.partition("#")
        aim = (page.path.parent / path).resolve() if path else page.path
        if not aim.exists():
            broken.append(f"line {line}: {target} is not there")
        elif anchor and anchor not in (pages.get(aim) or read_page(aim)).anchors():
            broken.append(f"line {line}: {target} has no such heading")
    return broken


@by_name(WITH_LINKS)
def test_every_link_leads_somewhere(page):
    assert broken_links(page) == []


def shell_commands(page: Page) -> list[tuple[int, list[str]]]:
    """Commands of a page's shell blocks as words, with their lines."""
    languages = (*SHELL, "") if page.path.parent == ROOT else SHELL
    commands = []
    for block in page.of_language(*languages):
        for offset, line in enumerate(block.code.splitlines()):
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                commands.append((block.line + offset, words[:end]))
                words = words[end + 1 :]
    return commands


def broken_commands(page: Page) -> list[str]:
    """Programs, files, modules and extras that a page's commands name and that do not exist, each with its line."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"]
    programs = {"cd", "export", "python"}  # and what pip has installed by now
    programs |= {re.match(r"[\w-]+", wanted)[0] for extra in extras.values() for wanted in extra}
    broken = []
    for line, words in shell_commands(page):
        while "=" in words[0]:  # variables of the environment
            words = words[1:]
        program, *arguments = words
        if program == "pip":
            programs |= {word for word in arguments[1:] if word.isidentifier() or "-" in word[1:]}
        if shutil.which(program) is None and program not in programs:
            broken.append(f"line {line}: no program {program}")
        for argument in arguments:
            if match := re.search(r"^(?:\.|skmanifold)\[(.*)\]$", argument):
                broken += [f"line {line}: no extra {x}" for x in match[1].split(",") if x not in extras]
            elif re.search(r"^[\w./-]+\.(py|sh|toml)$|^\.ci/", argument) and not (ROOT / argument).exists():
                broken.append(f"line {line}: no file {argument}")
        if program == "python" and arguments[:1] == ["-m"]:
            module = arguments[1].split(".")
            is_ours = (ROOT / module[0]).is_dir()
            there = [ROOT.joinpath(*module).with_suffix(".py"), ROOT.joinpath(*module, "__main__.py")]
            if is_ours and not any(path.exists() for path in there):
                broken.append(f"line {line}: no module {arguments[1]}")
    return broken


@by_name([page for page in PAGES if shell_commands(page)])
def test_every_command_names_what_exists(page):
    assert broken_commands(page) == []


# The checks themselves


def page_of(tmp_path, text: str) -> Page:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return read_page(path)


def test_a_block_that_fails_is_found_on_its_line(tmp_path):
    page = page_of(tmp_path, "# A\n\n```python\nx = 1\n```\n\n:::{note}\n```python\nassert x == 2\n```\n:::\n")
    with pytest.raises(AssertionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno + 1 == 9


def test_a_session_with_another_result_is_found(tmp_path):
    run_page(page_of(tmp_path, "```python\nx = 2\n```\n```python\n>>> x + 1\n3\n```\n"))
    with pytest.raises(doctest.DocTestFailure):
        run_page(page_of(tmp_path, "```python\n>>> 1 + 1\n3\n```\n"))


def test_a_block_is_left_out_only_with_a_reason_on_the_line_before(tmp_path):
    text = "<!-- not run: a cluster -->\n```python\n1 / 0\n```\n\ntext\n\n```python\n1 / 0\n```\n"
    first, second = page_of(tmp_path, text).blocks
    assert (first.not_run, second.not_run) == ("a cluster", None)


def test_links_in_code_and_out_into_the_web_are_none_of_ours(tmp_path):
    text = "[a](b.md#c) `[x](y)` [w](https://e.org) ![p](q.png)\n\n```\n[n](o)\n```\n"
    assert page_of(tmp_path, text).links() == [(1, "b.md#c"), (1, "q.png")]


def test_anchors_are_those_of_github(tmp_path):
    text = "# `fit`, and *what* it does\n## Twice\n## Twice\n(here)=\n```\n# no heading\n```\n"
    assert page_of(tmp_path, text).anchors() == {"fit-and-what-it-does", "twice", "twice-1", "here"}


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# There\n", encoding="utf-8")
    page = page_of(tmp_path, "# Here\n[a](#here) [b](other.md#there) [c](other.md#nowhere)\n[d](gone.md) [e](#gone)\n")
    assert [words.split(": ")[1] for words in broken_links(page)] == [
        "other.md#nowhere has no such heading",
        "gone.md is not there",
        "#gone has no such heading",
    ]


def test_commands_that_name_nothing_are_found(tmp_path):
    good = 'pip install -e ".[test]" && pytest\nA=1 python examples/quickstart.py  # a comment\nbash .ci/run\n'
    assert broken_commands(page_of(tmp_path, f"```sh\n{good}```\n")) == []
    bad = 'pip install -e ".[tests]" && frobnicate\npython examples/gone.py\nbash .ci/gone\npython -m benchmarks.gone\n'
    assert [words.split(": ")[1] for words in broken_commands(page_of(tmp_path, f"```sh\n{bad}```\n"))] == [
        "no extra tests",
        "no program frobnicate",
        "no file examples/gone.py",
        "no file .ci/gone",
        "no module benchmarks.gone",
    ]
