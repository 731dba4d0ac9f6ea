"""The page of a run: all figures in tables, nothing that runs or is fetched, and no way in for hostile names."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import bench_views
import pytest
from result_documents import COMMAND, collective, slow_rank_training, training

from clusterctl import resources
from clusterctl.benchmarks.base import Fault, FaultKind

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; an element that is not closed where it should be is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words, self.cells = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
        if self.open and self.open[-1] in ("td", "th", "small", "pre", "code"):
            self.cells.append(data.strip())

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))

    def ids(self):
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


def page(record):
    return Page(bench_views.page(record))


def test_every_figure_of_a_sweep_is_in_the_table():
    record = collective()
    found = page(record)
    for row in record.result.rows:
        for cell in (row.size_bytes, f"{row.time_us.median:.2f}", f"{row.busbw_gbps.median:.2f}"):
            assert str(cell) in found.cells, row
    for words in (
        "all_reduce \u00b7 4 ranks on 1 node, NVIDIA H200",
        "355.54 GB/s",
        "2026-11-20 09:15:00 UTC",
        "measured",
    ):
        assert words in found.text
    assert COMMAND in found.cells
    # The style sheet wraps values of any length in tables of this class.
    assert "pairs" in [attributes.get("class") for tag, attributes in found.elements if tag == "table"]
    assert "NCCL version 2.28.3+cuda13.0" in found.cells


def test_a_scaling_curve_has_its_efficiencies_and_its_slow_rank():
    found = page(slow_rank_training())
    for words in (
        "98.30%",
        "between nodes",
        "The slowest is rank 21 on gpu03 with 2122.0 images/s (-15.8 %)",
    ):
        assert words in found.text
    shades = [
        attributes.get("class") for tag, attributes in found.elements if tag == "td" and "title" in attributes
    ]
    assert len(shades) == 32
    assert shades.count("below3") == 1 == len([s for s in shades[16:24] if s == "below3"])
    assert ("path", "spread s1") in {(tag, attributes.get("class")) for tag, attributes in found.elements}


def test_of_many_nodes_the_heat_map_shows_those_that_deviate():
    rates = [1000.0] * 800
    rates[333] = 700.0
    found = page(training([rates], node="n{:04d}"))
    assert "n0042" in found.cells
    assert "36 more nodes are within 0.0 % of the median" in found.text


@pytest.mark.parametrize("make", [collective, slow_rank_training])
def test_nothing_runs_and_nothing_is_fetched(make):
    found = page(make())
    assert not {tag for tag, _ in found.elements} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "use",
        "image",
    }
    attributes = [(name, value) for _, attributes in found.elements for name, value in attributes.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in ("href", "src", "style")]
    text = bench_views.page(make())
    assert "url(" not in text and "@import" not in text and "http" not in re.sub("http-equiv", "", text)
    (policy,) = [a["content"] for _, a in found.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script" not in policy


@pytest.mark.parametrize("make", [collective, slow_rank_training])
def test_drawings_say_what_they_show_to_those_who_cannot_see_them(make):
    found = page(make())
    drawings = [
        attributes for tag, attributes in found.elements if tag == "svg" and attributes.get("role") == "img"
    ]
    assert drawings
    ids = found.ids()
    assert len(ids) == len(set(ids))
    for attributes in drawings:
        assert set(attributes["aria-labelledby"].split()) <= set(ids)
    headings = [attributes.get("scope") for tag, attributes in found.elements if tag == "th"]
    assert headings and all(scope in ("row", "col", "colgroup") for scope in headings)


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>x</script>",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- --> &lt;b&gt; \u202egnp.exe \x1b[31m \ud800",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_are_shown_and_do_nothing(text):
    fault = Fault(FaultKind.RANK_DIED, text, 1, text, text)
    record = training(
        [[100.0], [90.0, 50.0]], faults=[fault], node=text.replace("{", "(").replace("}", ")"), precision=text
    )
    record.document["proof"]["library"] = [text]
    record.document["proof"]["more"] = {text: text}
    record = type(record)(record.summary.model_copy(update={"hardware": text, "versions": (text,)}),
                          record.document, (text,))  # fmt: skip
    rendered = bench_views.page(record)
    clean = page(training([[100.0], [90.0, 50.0]], faults=[Fault(FaultKind.RANK_DIED, "x", 1, "x", "x")]))
    found = Page(rendered)
    kinds = {tag for tag, _ in found.elements}
    assert kinds <= {tag for tag, _ in clean.elements} | {"details", "pre", "summary"}
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert "49" not in found.text
    for character in ("\u202e", "\x1b", "\ud800"):
        assert character not in rendered
    rendered.encode("utf-8")


def test_a_run_in_which_nothing_came_up_has_a_page_that_says_why():
    fault = Fault(FaultKind.NODE_UNREACHABLE, "gpu1 does not answer", None, "gpu1", "is it switched on?")
    record = training([[1.0]], faults=[fault])
    empty = {**record.document, "variants": [], "proof": {"failures": record.document["proof"]["failures"]}}
    from clusterctl.results import record as records

    found = page(records.from_document(empty))
    for words in (
        "no rank started",
        "What went wrong",
        "gpu1 does not answer",
        "What to do: is it switched on?",
    ):
        assert words in found.text
    assert not [tag for tag, attributes in found.elements if tag == "svg" and attributes.get("role")]


def test_what_a_proof_holds_beyond_what_is_known_is_shown_as_it_stands():
    record = collective()
    record.document["proof"]["news"] = {"from": "a newer version"}
    assert '"from": "a newer version"' in page(record).text


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """WCAG 2.2, "contrast ratio"."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_lines_stand_out_from_their_ground(theme):
    style = resources.text("templates", "report", "style.css")
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", blocks[theme]))
    assert set(colours) == set(dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", blocks[0])))
    on_page = [("text", "page"), ("muted", "page"), ("text", "raised"), ("muted", "raised"), ("bad", "page")]
    on_notes = [(f"{kind}", f"{kind}-page") for kind in ("good", "bad", "caution")]
    on_notes += [("text", f"{kind}-page") for kind in ("good", "bad", "caution")]
    in_cells = [("text", f"{side}{step}") for side in ("below", "above") for step in (1, 2)]
    in_cells += [("on-strong", "below3"), ("on-strong", "above3")]
    for ink, ground in (*on_page, *on_notes, *in_cells):
        assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for line in ("s1", "s2", "s3", "s4", "s5", "s6"):
        assert contrast(colours[line], colours["page"]) >= 3, line
