"""What the page on Spark says is true: its example runs and prints what it shows."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
SHOWN = re.compile(
    r"^```python\n((?:(?!^```).)*?spark_bridge.*?)^```\n+```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def test_spark_of_the_page_prints_what_it_shows(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    ((code, shown),) = SHOWN.findall(PAGE.read_text("utf-8"))
    # Spark resolves relative paths by the folder that its Java was started in.
    code = code.replace('parquet("hits")', f'parquet("{tmp_path}/hits")')
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, PAGE.name, "exec"), {})
    assert out.getvalue() == shown
