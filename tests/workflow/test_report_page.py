"""The page in a browser: offline, sortable, filterable, reachable by keyboard, narrow and wide."""

import os
import shutil

import pandas as pd
import pytest

from fedscan.experiments.registry import EXPERIMENTS
from fedscan.report.contents import contents

playwright = pytest.importorskip("playwright.sync_api")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        reason = f"no browser: install one of {', '.join(BROWSERS)}"
        if "CI" in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=flags)
        yield found
        found.close()


@pytest.fixture
def report(finished):
    return finished.folder / "results/report/index.html"


class Opened:
    """A page, with everything it complained about or asked the network for."""

    def __init__(self, browser, file, width=1400, scheme="light"):
        size = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def unfold(self):
        self.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")


def test_it_opens_offline_without_complaints_and_shows_every_figure(browser, report):
    opened = Opened(browser, report)
    opened.unfold()
    script = """Promise.all(Array.from(document.images, async (image) => {
      image.loading = 'eager'; await image.decode(); return image.naturalWidth; }))"""
    widths = opened.page.evaluate(script)
    assert len(widths) >= 15
    assert min(widths) > 100
    assert opened.complaints == []
    outside = [url for url in opened.requests if not url.startswith(("data:", "file:"))]
    assert outside == []
    assert [url for url in opened.requests if url.startswith("file:")] == [report.as_uri()]


def test_every_table_of_numbers_is_on_the_page(finished, report):
    html = report.read_text()
    entries = [entry for e in EXPERIMENTS for entry in contents(f"fedscan.experiments.{e.name}")]
    listed = {entry.folder: set() for entry in entries}
    for entry in entries:
        listed[entry.folder] |= set(entry.tables)
    for folder, tables in listed.items():
        made = set(pd.read_parquet(finished.folder / f"results/{folder}/numbers.parquet")["table"])
        assert made <= tables, folder
    assert "All configurations" in html
    assert "fedscan" in html


def column(page, heading):
    script = """(heading) => {
      for (const table of document.querySelectorAll('table.sortable'))
        for (const cell of table.tHead.rows[0].cells)
          if (cell.textContent === heading)
            return Array.from(
              table.tBodies[0].rows, (row) => row.cells[cell.cellIndex].dataset.sort);
    }"""
    return [float(value) for value in page.evaluate(script, heading)]


def test_tables_sort_both_ways_with_mouse_and_keyboard(browser, report):
    page = Opened(browser, report).page
    button = page.get_by_role("button", name="last-10 ppl", exact=True).first
    button.click()
    rising = column(page, "last-10 ppl")
    assert rising == sorted(rising)
    assert len(set(rising)) > 1
    header = button.locator("xpath=..")
    assert header.get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    assert column(page, "last-10 ppl") == rising[::-1]
    assert header.get_attribute("aria-sort") == "descending"


def test_the_filter_hides_other_rows(browser, report):
    opened = Opened(browser, report)
    opened.unfold()
    box = opened.page.locator(".filter input").first
    table = opened.page.locator(".filter + .scroll table").first
    before = table.locator("tbody tr:visible").count()
    box.fill("no such words")
    assert table.locator("tbody tr:visible").count() == 0
    box.fill("")
    assert table.locator("tbody tr:visible").count() == before


def test_the_keyboard_reaches_content_sections_and_tables(browser, report):
    page = Opened(browser, report).page
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    text = " ".join(reached)
    assert 'class="skip"' in text
    assert 'href="#comparison"' in text
    assert 'class="scroll"' in text
    assert "<summary>" in text


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_narrow_and_wide_light_and_dark(browser, report, width, scheme):
    opened = Opened(browser, report, width, scheme)
    opened.unfold()
    page = opened.page
    # Only tables and listings scroll sideways, never the page.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    script = """() => {
      const light = (color) => {
        const part = color.match(/[0-9.]+/g).slice(0, 3).map((c) => {
          c = c / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2]; };
      const back = light(getComputedStyle(document.body).backgroundColor);
      const worst = ['p', 'td', 'figcaption', 'dt', 'a', 'th button', 'small', '.caption']
        .map((name) => document.querySelector('main ' + name)).filter(Boolean)
        .map((node) => light(getComputedStyle(node).color))
        .map((ink) => (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05));
      return [back, Math.min(...worst)]; }"""
    back, contrast = page.evaluate(script)
    assert (back < 0.1) == (scheme == "dark")
    assert contrast >= 4.5
