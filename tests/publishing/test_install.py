"""One command installs the package: errors, docstrings and pages show it, and it is the same for every shell."""

import re
import shlex
import tomllib

import pytest
from _pages import ROOT, all_pages, read_page

from skmanifold import _install
from skmanifold._install import install_command

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = SETTINGS["project"]["optional-dependencies"]
# A command of pip or another installer, up to the end of the command
COMMAND = re.compile(r"(?:pip|pipx|uv|conda|mamba|pixi)3?\s+(?:install|add)\b[^`\n]*?(?=`|$|\s*&&|\s+#)", re.MULTILINE)
PACKAGE = [*sorted((ROOT / "skmanifold").rglob("*.py")), *sorted((ROOT / "examples").rglob("*.py"))]
PAGES = [page.path for page in all_pages() if page.path.name != "CHANGELOG.md"]  # which says what was
FROM_CHECKOUT = 'pip install -e ".{extras}"'
# These are read in a checkout and say what to do there, whatever is released.
IN_CHECKOUT = {ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "doc/index.md")}


def other_commands(text: str, in_checkout: bool = False) -> list[str]:
    """Install commands in a text that are not the package's own, or that of a checkout where it may be."""
    found = (re.sub(r"\s+", " ", match[0]).strip() for match in COMMAND.finditer(text))
    return [command for command in found if not _is_ours(command, in_checkout)]


def _is_ours(command: str, in_checkout: bool) -> bool:
    extras = re.search(r"\[([\w,]*)\]", command)
    names = extras[1].split(",") if extras else []
    ours = {install_command(*names)}
    if in_checkout:
        ours.add(FROM_CHECKOUT.format(extras=f"[{','.join(names)}]" if names else ""))
    return command in ours and set(names) <= EXTRAS.keys()


def by_path(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.relative_to(ROOT).as_posix())


def test_package_and_examples_show_no_other_command():
    shown = {path.name: other_commands(path.read_text(encoding="utf-8")) for path in PACKAGE}
    del shown["_install.py"]
    assert {name: commands for name, commands in shown.items() if commands} == {}


@by_path(PAGES)
def test_pages_show_no_other_command(path):
    assert other_commands(path.read_text(encoding="utf-8"), path in IN_CHECKOUT) == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install skmanifold",
        "pip install skmanifold[arviz]",
        "pip install -e .[arviz]",
        "pip install -e '.[arviz]'",
        'pip install -e ".[gone]"',
        "It needs rich (`pip install rich`).",
        "```\nconda install skmanifold\n```",
    ],
)
def test_another_command_is_found(text):
    assert len(other_commands(text)) == 1


def test_pages_follow_the_command_of_a_release(monkeypatch):
    text = "`" + FROM_CHECKOUT.format(extras="[arviz]") + "`"
    monkeypatch.setattr(_install, "INSTALL", 'pip install "skmanifold{extras}"')
    assert len(other_commands(text)) == 1
    assert other_commands(text, in_checkout=True) == []
    assert other_commands('`pip install "skmanifold[arviz]"`') == []


def test_own_commands_are_accepted():
    text = f"`{install_command('arviz')}` or\n{install_command('test', 'dev')}\n{install_command()} && pytest\n"
    assert other_commands(text) == []


COMMANDS = ['pip install -e ".[demo]" && python examples/quickstart.py', 'pip install -e ".[test]" && pytest']


def one_line_commands(path):
    """The shell blocks of a page that install, of which each is to be pasted as one line."""
    return [block.code.rstrip("\n") for block in read_page(path).blocks if "pip install" in block.code]


def test_readme_has_two_commands_of_one_line_and_the_start_page_the_first_of_them():
    assert one_line_commands(ROOT / "README.md") == COMMANDS
    assert one_line_commands(ROOT / "doc/index.md") == COMMANDS[:1]


def test_the_check_of_every_change_runs_the_commands_of_readme():
    readme, check = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", ".ci/run"))
    read = re.findall(r"^(\w+)=\$\(grep -x '(.*)' README\.md\)$", check, re.MULTILINE)
    found = [re.findall(f"^{pattern}$", readme, re.MULTILINE) for _, pattern in read]
    assert found == [[command] for command in COMMANDS]
    variables = " ".join(f'"${name}"' for name, _ in read)
    assert f'for command in {variables}; do\n    echo "$command"\n    bash -c "$command"\ndone\n' in check
    assert set(EXTRAS["demo"]) <= set(EXTRAS["test"])  # the second command installs all that it needs


def test_shells_read_the_command_as_words():
    # POSIX shells and zsh: no pattern is left unquoted. cmd and PowerShell: double quotes are the only quotes of both.
    command = install_command("arviz", "dask")
    assert shlex.split(command)[-1].endswith("[arviz,dask]")
    assert "'" not in command
    assert not re.search(r'[^"\w .=-]', re.sub(r'"[^"]*"', "", command))
