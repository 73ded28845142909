"""The desk's pages in a real browser: nothing leaves the machine, nothing is obeyed, people label, marks survive."""

import re
import urllib.error
import urllib.request

import pytest

from foil.cluster.desk.report import report_page
from foil.datasets_out.sql.query import run_sql
from tests.support.commands import foil, hosted_job
from tests.support.desk.browser import Visit, desk_process, headless
from tests.support.desk.hostile import HOSTILE, SHOWN, hostile_run
from tests.support.models.character import Character
from tests.support.models.fault_server import serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    with headless() as started:
        yield started


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    with serving(answer=Character()) as server:
        assert foil("run", hosted_job(folder, server.url, 40)).returncode in {0, 3}
    return folder / "out"


@pytest.fixture(scope="module")
def desk(run):
    with desk_process("view", run, "--author", "curator") as started:
        yield started


def status_of(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


def test_nobody_gets_in_without_the_token_or_under_another_name(desk):
    assert status_of(f"{desk.base}/") == 403
    assert status_of(f"{desk.base}/topics?token=wrong") == 403
    assert status_of(f"{desk.base}/static/desk.css") == 403
    assert status_of(desk.url, Host="evil.test") == 403
    assert status_of(desk.url, Host="evil.test:80") == 403
    token = desk.url.rpartition("=")[2]
    cookie = f"foil-desk-{desk.base.rpartition(':')[2]}={token}"
    assert status_of(f"{desk.base}/", Cookie=cookie) == 200
    post = urllib.request.Request(f"{desk.base}/notes", b"topic_id=x", {"Cookie": cookie, "Origin": "http://evil.test"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(post, timeout=20)


@pytest.mark.parametrize("options", [{}, {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}])
def test_every_page_opens_fits_and_asks_nobody_else(browser, desk, run, options):
    visit = Visit(browser, **options)
    visit.page.goto(desk.url)
    assert visit.page.url == f"{desk.base}/"  # the token is not left in the address
    [topic] = run_sql(run, "SELECT topic_id FROM topics WHERE status = 'accepted' LIMIT 1").column(0).to_pylist()
    for path in ("/", "/topics", "/topics?q=kite&status=accepted", f"/topics/{topic}", "/map", "/sql"):
        answer = visit.page.goto(desk.base + path)
        assert answer.status == 200
        assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
        assert not visit.overflows(), path
    assert visit.faults == []


def test_search_finds_words_anywhere_and_facets_narrow(browser, desk, run):
    visit = Visit(browser)
    visit.page.goto(desk.url)
    visit.page.goto(f"{desk.base}/topics")
    visit.page.fill("#q", "VIOLET kite")
    visit.page.press("#q", "Enter")
    visit.page.wait_for_url("**q=VIOLET**")
    texts = (
        "SELECT topic_id, query AS text FROM topics UNION ALL SELECT topic_id, instruction FROM intents "
        "UNION ALL SELECT topic_id, text FROM passages"
    )
    found = run_sql(run, f"SELECT count(DISTINCT topic_id) FROM ({texts}) WHERE text ILIKE '%violet%'")
    [expected] = found.column(0).to_pylist()
    assert 0 < expected < 40
    assert visit.page.inner_text("[role=status]").startswith(f"{expected} topics")
    visit.page.goto(f"{desk.base}/topics?q=no+such+words+anywhere'%3B--")
    assert "Nothing matches" in visit.page.inner_text("main")


def test_a_topic_shows_its_lineage_and_keeps_a_note(browser, desk, run):
    visit = Visit(browser)
    visit.page.goto(desk.url)
    [topic] = run_sql(run, "SELECT topic_id FROM topics WHERE status = 'accepted' LIMIT 1").column(0).to_pylist()
    visit.page.goto(f"{desk.base}/topics/{topic}")
    text = visit.page.inner_text("main")
    assert "partition 0, committed by" in text
    assert "Raw reply to writing.instruction" in text
    visit.page.select_option("#flag", "bad")
    visit.page.fill("#note", "its label is <b>wrong</b>")
    visit.page.click("form[action='/notes'] button")
    visit.page.wait_for_selector("p.note")
    assert "its label is <b>wrong</b>" in visit.page.inner_text("p.note")
    rows = run_sql(run, "SELECT topic_id, author, flag, note FROM notes").to_pylist()
    assert rows == [{"topic_id": topic, "author": "curator", "flag": "bad", "note": "its label is <b>wrong</b>"}]
    visit.page.goto(f"{desk.base}/topics?mark=flag")
    assert visit.page.inner_text("[role=status]").startswith("1 topics")
    assert visit.faults == []


def test_sql_is_answered_behind_the_wall(browser, desk):
    visit = Visit(browser)
    visit.page.goto(desk.url)
    visit.page.goto(f"{desk.base}/sql")
    visit.page.fill("#query", "SELECT status, count(*) AS n FROM topics GROUP BY ALL")
    visit.page.press("#query", "Control+Enter")
    visit.page.wait_for_selector("table")
    for attack in ("COPY topics TO '/tmp/x'", "FROM read_text('/etc/passwd')", "DROP VIEW topics"):
        visit.page.fill("#query", attack)
        visit.page.click("text=Ask")
        visit.page.wait_for_selector(".error")
        assert visit.page.locator("table").count() == 0
        visit.page.goto(f"{desk.base}/sql")
    assert visit.faults == []


def test_the_map_is_drawn_and_goes_by_keys(browser, desk, run):
    visit = Visit(browser)
    visit.page.goto(desk.url)
    visit.page.goto(f"{desk.base}/map")
    visit.page.wait_for_selector("canvas[data-drawn]")
    visit.page.focus("canvas")
    for key in ("ArrowRight", "ArrowUp", "ArrowLeft"):
        visit.page.keyboard.press(key)
    assert visit.page.locator("#point a").count() == 6  # the text and its five neighbours
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/topics/*")
    assert visit.faults == []
    assert list((run / "desk").glob("map-*.parquet"))


def chosen_by_sql(page):
    """Asks the SQL of what is chosen on the map: the dots that it said, and the topics that were found."""
    dots = re.match(r"(\d+) dots", page.inner_text("#chosen"))[1]
    page.click("text=Ask")
    page.wait_for_selector("p[role=status]")
    return int(dots), int(page.inner_text("p[role=status]").split()[0])


def test_a_choice_on_the_map_becomes_sql_that_finds_its_topics(browser, desk, run):
    visit = Visit(browser, viewport={"width": 1280, "height": 1400})
    visit.page.goto(desk.url)
    counts = {}
    for name, choose in {"accepted": "button[data-group='0']", "drawn": ""}.items():
        visit.page.goto(f"{desk.base}/map")
        visit.page.wait_for_selector("canvas[data-drawn]")
        if choose:
            visit.page.click(choose)
            assert visit.page.get_attribute(choose, "aria-pressed") == "true"
        else:
            box = visit.page.locator("canvas").bounding_box()
            visit.page.mouse.move(box["x"] + 9, box["y"] + 9)
            visit.page.mouse.down()
            visit.page.mouse.move(box["x"] + box["width"] - 9, box["y"] + box["height"] - 9)
            visit.page.mouse.up()
            assert "topic_id IN ('" in visit.page.input_value("#query")
        dots, counts[name] = chosen_by_sql(visit.page)
        assert dots == counts[name] > 0
    [facts] = run_sql(
        run, "SELECT count(*) FILTER (status = 'accepted') AS accepted, count(*) AS n FROM topics"
    ).to_pylist()
    assert (counts["accepted"], counts["drawn"]) == (facts["accepted"], facts["n"])
    assert visit.faults == []


def test_hostile_texts_change_nothing_in_any_page(browser, tmp_path):
    out = hostile_run(tmp_path / "out")
    (tmp_path / "report.html").write_text(report_page(out)[0])
    report = Visit(browser)
    report.page.goto((tmp_path / "report.html").as_uri())
    assert SHOWN in report.page.inner_text("details.topic summary >> nth=0")
    with desk_process("view", out) as desk, desk_process("label", out, "--annotator", "ann") as label:
        visit = Visit(browser)
        visit.page.goto(desk.url)
        [topic] = run_sql(out, "SELECT topic_id FROM topics WHERE status = 'accepted'").column(0).to_pylist()
        for path in ("/topics", f"/topics/{topic}", "/map", "/topics?" + f"q={urllib.request.quote(HOSTILE)}"):
            visit.page.goto(desk.base + path)
            assert visit.page.locator("script:not([src]), img").count() == 0
        visit.page.goto(f"{desk.base}/topics/{topic}")
        assert visit.page.inner_text("h1") == SHOWN
        visit.page.goto(label.url)
        assert visit.page.inner_text("h1") == SHOWN
        assert "980,000 characters more" in visit.page.inner_text("main")
    assert report.faults + visit.faults == []


def mark_item(page, keys):
    """Marks each passage by keys in turn, the instruction as natural and not giving away, and keeps the item."""
    for place in range(page.locator(".item[data-letter]").count() - 1):
        page.keyboard.press(keys[place % len(keys)])
    page.keyboard.press("1")
    page.keyboard.press("4")
    with page.expect_navigation():
        page.keyboard.press("Enter")


def kept(page):
    return int(re.search(r"(\d+) of \d+ items are marked", page.inner_text("main"))[1])


def test_two_annotators_label_by_keys_and_no_kept_mark_is_lost_by_kill_9(browser, run):
    sheet = ("--topics", "6", "--name", "two")
    for annotator, keys in (("ann", "12"), ("bob", "13")):
        acknowledged = 0
        while acknowledged < 6:
            with desk_process("label", run, *sheet, "--annotator", annotator) as desk:
                visit = Visit(browser)
                visit.page.goto(desk.url)
                assert kept(visit.page) == acknowledged
                for _ in range(2):
                    mark_item(visit.page, keys)
                    acknowledged = kept(visit.page)
                if acknowledged < 6:
                    visit.page.keyboard.press("1")  # a mark that nobody acknowledged
                assert visit.faults == []
                desk.kill()
    with desk_process("label", run, *sheet, "--annotator", "bob") as desk:
        visit = Visit(browser)
        visit.page.goto(desk.url)
        text = visit.page.inner_text("main")
    assert "All items are marked" in text
    rows = run_sql(run, "SELECT reader, count(DISTINCT item) AS items FROM audits GROUP BY ALL ORDER BY 1").to_pylist()
    assert rows == [{"reader": "ann", "items": 6}, {"reader": "bob", "items": 6}]
    pairs = run_sql(
        run,
        "SELECT a.mark, b.mark FROM audits a JOIN audits b USING (audit, item, passage_id) "
        "WHERE a.reader = 'ann' AND b.reader = 'bob'",
    )
    from sklearn.metrics import cohen_kappa_score

    expected = cohen_kappa_score(*(column.to_pylist() for column in pairs.columns))
    [shown] = re.findall(r"ann and bob\s+(\d+)\s+(-?[\d.]+)", text)
    assert shown == (str(pairs.num_rows), f"{expected:.4f}")


def test_items_come_in_an_order_of_the_annotators_own(browser, run):
    orders = []
    for annotator in ("cid", "dee"):
        with desk_process("label", run, "--topics", "6", "--name", "two", "--annotator", annotator) as desk:
            visit = Visit(browser)
            visit.page.goto(desk.url)
            visit.page.click("text=All items")
            links = visit.page.locator("details a").evaluate_all("links => links.map(link => link.search)")
            orders.append(links)
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
