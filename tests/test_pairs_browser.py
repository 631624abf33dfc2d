"""The report in headless Chromium: its script runs, the filters work, and no other script does."""

from __future__ import annotations

import bench_agents
import pytest
from chromium import BROWSER, browser
from test_pairs import Counted, bench

from learners.benchmark.page import page
from learners.benchmark.transcripts import transcripts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium here; set AGON_CHROMIUM"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    """A report with replies that try to run scripts: 4 problems, 2 directions."""
    out = tmp_path_factory.mktemp("report")
    agents = Counted(bench_agents.hostile), Counted(bench_agents.beta)
    results, plan, played = bench(out, *agents, n=4, seeds=1)
    return page(results, transcripts(plan, played))


COUNT = "document.getElementById('count').textContent"
SHOWN = "[...document.querySelectorAll('details')].filter(d => d.offsetHeight > 0).length"


def choose(name: str, value: str) -> str:
    return (
        f"{name}.value = {value!r}; {name}.dispatchEvent(new Event('change')); "
        f"{COUNT} + ' ' + {SHOWN}"
    )


def test_filters_work_and_nothing_of_a_reply_runs(tmp_path, report):
    file = tmp_path / "r.html"
    file.write_text(report, encoding="utf-8")
    kinds = {k: report.count(f'data-kind="{k}"') for k in ("converted", "corrupted", "both wrong")}
    assert kinds["converted"] > 0
    with browser(tmp_path / "profile") as found:
        found.open(file)
        assert found.js(COUNT) == "8 transcripts"
        assert found.js("document.title").startswith("pairs on ")
        assert found.js("document.querySelectorAll('img, script:not(:last-of-type)').length") == 0
        for kind, count in kinds.items():
            assert found.js(choose("kind", kind)) == f"{count} transcripts {count}"
        found.js(choose("kind", ""))
        assert found.js(choose("direction", "B>A")) == "4 transcripts 4"
        assert found.js("document.querySelectorAll('svg').length") == 4
        assert found.js("document.querySelector('svg').getBoundingClientRect().height") > 200


def test_even_unescaped_a_script_of_a_reply_would_not_run(tmp_path, report):
    """The page's policy is the second wall."""
    unsafe = report.replace("<h2>Transcripts</h2>", "<script>document.title='owned'</script>")
    file = tmp_path / "r.html"
    file.write_text(unsafe, encoding="utf-8")
    with browser(tmp_path / "profile") as found:
        found.open(file)
        assert found.js("document.querySelectorAll('script').length") == 2
        assert found.js("document.title") != "owned"
