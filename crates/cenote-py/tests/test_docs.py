"""The documentation's programs, as they are there, but for the pool's path."""

import importlib.util
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def run(text, path, was):
    assert was in text
    ended = subprocess.run(
        [sys.executable, "-c", text.replace(was, str(path))], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def test_the_first_example_of_the_readme(path):
    (text,) = blocks("README.md")
    for n in range(1, 4):
        assert run(text, path, "/dev/shm/example") == f"1000000.0 b'{n}'\n"


def test_the_tutorial(path):
    is_there = importlib.util.find_spec("pyarrow") is not None
    text = "\n".join(block for block in blocks("docs/python.md") if is_there or "pyarrow" not in block)
    names = run(text, path, "/dev/shm/tutorial").split()
    assert "visits" in names and "cache" in names and not path.exists()
