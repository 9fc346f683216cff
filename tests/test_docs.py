"""The pages of the docs and the README: their code is run as written, and the site that is made of them is whole.

Each page is run in a folder of its own that holds `pictures/`, a folder a class, packed into `shards/` by the README's
own command. Its blocks run in the order of the page, since the later ones go on from what the earlier ones have made:

- every ```python block, in a namespace of its own; nothing may be written to stderr, nor any warning be raised. One
  whose first line is `# NAME.py` is what a reader would save under that name, and is saved, not run;
- a ```text block that follows it with nothing but white space in between is what it prints, to the letter;
- the lines of ```sh blocks where the page says `<!-- its commands are run -->`, except in a block right behind
  `<!-- not run -->`; each must be a `wds` command or one that starts a saved script, and end well. What `shards/` is
  served as stands for hosts that the pages make up, and a store in memory for theirs. `wds serve` has to serve, on
  whichever port is free.

docs/frameworks.md has whole scripts, of packages that may not be installed: each is run by itself, in a process of its
own, with `<!-- ranks: 2 -->` above it by torchrun, and with `<!-- needs: PACKAGE -->` only where that is.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from click.testing import CliRunner

from tests.builders import picture
from wds_tools.cli import root
from wds_tools.dataset import open_dataset
from wds_tools.serve import serve
from wds_tools.sources.http import close_idle

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]
LONG = {"docs/ddp.md", "docs/recipes.md", "docs/tuning.md", "docs/viewing.md"}
"""Start torch several times each."""
FRAMEWORKS = "docs/frameworks.md"
STANDS_FOR = {
    "https://data.example.org/imagenet/": "{served}/",
    "https://data.example.org/old/": "{served}/",
    "https://host/d/train-{000000..000099}.tar": "{served}/train-000000.tar",
    "s3://bucket/d/": "memory://docs/d/",
    "/nvme/cache": "cache",
}
"""What is not there, and what it is when a command is run."""
COMMANDS_ARE_RUN = "<!-- its commands are run -->"

_BLOCK = re.compile(
    r"(?P<skip>^<!-- not run -->\s*)?^```(?P<language>python|sh)[^\n]*\n(?P<code>.*?)^```\n"
    r"(?:\s*^```text\n(?P<prints>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a page is run in, made the working directory."""
    for number in range(60):
        file = tmp_path / "pictures" / ("cat", "dog", "owl")[number % 3] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(number, width=160 + 16 * (number % 2), height=120))
    monkeypatch.chdir(tmp_path)
    (pack,) = re.findall(r"^wds pack .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    run_command(pack)
    return tmp_path


def _blocks(page: str) -> Iterator[re.Match[str]]:
    return _BLOCK.finditer(page)


def run_python(code: str, page: str) -> str:
    """Run a block, or save it; returns what it printed."""
    saved = re.match(r"# (\w+\.py)\n", code)
    if saved:
        Path(saved[1]).write_text(code)
        return ""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
    return out.getvalue()


def run_command(line: str) -> None:
    """Run a line of a shell block."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    if words[:2] == ["wds", "serve"]:
        check_serves(words)
        return
    if words[0] == "wds":
        result = CliRunner().invoke(root, words[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        return
    assert words[0] in ("python", "torchrun"), f"this test does not know how to run {line!r}"
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [BIN / words[0], *words[1:]],
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def check_serves(words: list[str]) -> None:
    """Start it, fetch the listing from the url that it prints, and end it as a person does."""
    command = [str(BIN / "wds"), *words[1:], "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                connection.request("GET", "/dataset.json")
                assert json.loads(connection.getresponse().read())["shardlist"]
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=60)
            assert (process.returncode, "served 1 request" in complaints) == (0, True), complaints
        finally:
            process.kill()


@contextlib.contextmanager
def standing_in(text: str) -> Iterator[dict[str, str]]:
    """What takes the place of each address of a page that is not there."""
    if not any(address in text for address in STANDS_FOR):
        yield {}
        return
    store = fsspec.filesystem("memory")
    for path in Path("shards").glob("*.tar"):
        store.pipe_file(f"/docs/d/{path.name}", path.read_bytes())
    with serve("shards") as server:
        yield {address: place.format(served=server.url) for address, place in STANDS_FOR.items()}
        close_idle()
    store.rm("/docs", recursive=True)


def run_page(page: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / page).read_text()
    with standing_in(text) as places:
        run_blocks(page, text, places, capfd)


def run_blocks(page: str, text: str, places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    for block in _blocks(text):
        code = block["code"]
        if block["skip"]:
            continue
        if block["language"] == "python":
            printed = run_python(code, page)
            assert not capfd.readouterr().err, f"{page} writes to stderr:\n{code}"
            if block["prints"] is not None:
                assert printed.strip() == block["prints"].strip(), (
                    f"{page} shows another thing than is printed:\n{code}"
                )
        elif COMMANDS_ARE_RUN in text:
            for address, place in places.items():
                code = code.replace(address, place)
            for line in code.replace("\\\n", " ").splitlines():
                run_command(line)


def scripts() -> list[Any]:
    """The scripts of FRAMEWORKS, each with the name and the value of the comment above it."""
    found = re.findall(
        r"^(?:<!-- (\w+): (\S+) -->\n)?```python\n(.*?)^```$", (ROOT / FRAMEWORKS).read_text(), re.MULTILINE | re.DOTALL
    )
    return [
        pytest.param(name, value, code, id=f"{name}-{value}" if name else f"script{n}")
        for n, (name, value, code) in enumerate(found)
    ]


@pytest.mark.long
@pytest.mark.parametrize(("name", "value", "code"), scripts())
def test_the_scripts_of_the_frameworks_run_as_written(folder: Path, name: str, value: str, code: str) -> None:
    """What they warn of and write to stderr is their own."""
    if name == "needs":
        pytest.importorskip(value, exc_type=ImportError)
    script = folder / "train.py"
    script.write_text(code)
    runner = [sys.executable]
    if name == "ranks":
        runner += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", value]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "NO_ALBUMENTATIONS_UPDATE": "1"}
    done = subprocess.run([*runner, str(script)], env=os.environ | own, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


def marked(page: str) -> Any:
    return pytest.param(page, marks=pytest.mark.long if page in LONG else ())


@pytest.mark.parametrize("page", [marked(page) for page in PAGES if page != FRAMEWORKS])
def test_the_code_runs_as_written(page: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if page == "docs/inputs.md":
        from tests.shardwriter.inputs import test_recordio, test_tfrecord

        test_tfrecord.write(folder / "train-0.tfrecord", *map(test_tfrecord.imagenet, range(3)))
        test_recordio.write(folder / "train.rec", test_recordio.image(1, [1.0, 2.0]))
    run_page(page, capfd)
    if page == "docs/packing.md":
        assert len(open_dataset(folder / "parts")) == 60


def test_blocks_are_found() -> None:
    """Or a change of how pages are written would leave them unread."""
    found = {page: [block["language"] for block in _blocks((ROOT / page).read_text())] for page in PAGES}
    assert found["README.md"].count("python") >= 4
    assert found["docs/order.md"].count("python") >= 3
    assert found["docs/inputs.md"].count("sh") >= 6
    assert found["docs/packing.md"].count("sh") >= 3
    for page, languages in found.items():
        opened = re.findall(r"^```(python|sh)\b", (ROOT / page).read_text(), re.MULTILINE)
        assert languages == opened, f"{page}: a block that this test does not see"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", *PAGES])
def test_links_lead_somewhere(page: str) -> None:
    """To files, as pages are read in the repository; the site has its own check."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        there = (ROOT / page).parent / target
        assert target.startswith("https://") or there.exists(), f"{page} links to {target}"


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_asks_for_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the site is made by mkdocs; pip install 'shardstream[docs]'")
    done = subprocess.run(
        [BIN / "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    assert (tmp_path / "site/index.html").read_text().count('href="notebooks/') >= 4
    source = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(https?:[^"'\s>]+)""")
    linked = re.compile(r"""<link[^>]*rel=["']?(?:stylesheet|preload|icon)[^>]*href=["']?(https?:[^"'\s>]+)""")
    for page in pages:
        html = page.read_text()
        assert not source.findall(html) + linked.findall(html), f"{page.name} asks for something on the network"
