"""The page of topics shows what the estimator says, in a real browser, whatever the words are."""

import html
import json
import re
import shutil
import subprocess
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import ExponentialFamilyAdmixture, HDPAdmixture, StochasticLDA
from skmanifold.datasets import make_lda_corpus
from skmanifold.inference._draws import equal_tailed_intervals

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="needs Chromium, such as the package chromium of Debian")
WORDS = ["</script><b>bold</b>", "<!--<script>", "a&lt;b", '"\\u003c', "{{data}}", "a\0b", "\u202eleft", "long" * 50]
WORDS += [f"word{v}" for v in range(len(WORDS), 60)]
TITLES = [f"<i>title {i}</i>" for i in range(60)]
REPORT = """<script>
const texts = (selector) => Array.from(document.querySelectorAll(selector), (each) => each.textContent);
const state = () => ({ chosen: id("chosen").textContent, lambda: id("value").textContent, words: texts("#words bdi"),
  cells: texts("#words td:nth-child(3)"), documents: texts("#list bdi"), intervals: texts("#words .interval").length });
const found = { topics: texts("#topics bdi"), shares: texts("#topics .number"), first: state() };
id("slider").value = 0;
id("slider").dispatchEvent(new Event("input"));
found.specific = state();
document.querySelectorAll("#topics input")[1].click();
found.second = state();
Object.assign(found, { parsed: texts("main b, main i, #topics b").length, title: document.title,
  controls: Array.from(document.querySelectorAll("input"), (each) => each.type + (each.name || each.id)),
  back: getComputedStyle(document.body).backgroundColor, loaded: performance.getEntriesByType("resource").length });
document.body.dataset.report = JSON.stringify(found);
</script>"""


@cache
def corpus():
    return sp.csr_array(make_lda_corpus(n_samples=60, n_features=60, n_components=4, random_state=0).data)


@cache
def topics_of(sampler="gibbs"):
    return StochasticLDA(4, sampler=sampler, max_iter=60, thin=1, random_state=0).fit(corpus())


def page_of(model, folder, *arguments, **options):
    path = folder / "topics.html"
    assert model.to_html(path, *arguments, **options) is None
    return path.read_text("utf-8")


def data_of(page):
    (content,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(content)


def shown_in(folder, page, *options):
    """The report of the page after a browser has run its scripts."""
    path = folder / "shown.html"
    path.write_text(page, "utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *options, "--dump-dom", path.as_uri()]
    dom = subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode()
    return json.loads(html.unescape(re.search(r'data-report="([^"]*)"', dom)[1]))


def relevance_of(model, topic, weight):
    shares = model.posterior_["topic_weights"][model.best_chain_].mean(axis=0)
    log_p = np.log(model.components_[topic].astype(np.float64))
    return log_p - (1 - weight) * np.log(shares / shares.sum() @ model.components_.astype(np.float64))


@in_browser
def test_a_browser_shows_topics_words_and_documents(tmp_path):
    model = topics_of()
    page = page_of(model, tmp_path, corpus(), feature_names=WORDS, documents=TITLES, n_documents=5)
    found = shown_in(tmp_path, page + REPORT)
    weights = model.posterior_["topic_weights"][model.best_chain_]
    order = np.argsort(-weights.mean(axis=0))
    assert found["topics"] == [f"Topic {k}" for k in order]
    assert [float(share[:-1]) for share in found["shares"]] == pytest.approx(100 * weights.mean(axis=0)[order], abs=0.5)
    assert found["title"] == "4 topics of StochasticLDA"
    proportions = model.transform(corpus())
    intervals = model.credible_intervals()
    for state, topic, weight in (("first", 0, 0.6), ("specific", 0, 0.0), ("second", 1, 0.0)):
        shown, k = found[state], order[topic]
        assert shown["chosen"].startswith(f"Topic {k}, ")
        assert shown["lambda"] == f"{weight:.2f}"
        relevance, columns = relevance_of(model, k, weight), [WORDS.index(word) for word in shown["words"]]
        np.testing.assert_allclose(relevance[columns], -np.sort(-relevance)[:30], atol=1e-4)  # five digits are written
        assert shown["documents"] == [TITLES[row] for row in np.argsort(-proportions[:, k], kind="stable")[:5]]
        assert shown["intervals"] == 30
        for cell, v in zip(shown["cells"], columns, strict=True):
            low, high = map(float, re.search("%([^\N{EN DASH}]*)\N{EN DASH}(.*)%", cell).groups())
            assert (low, high) == pytest.approx(100 * intervals[:, k, v], rel=0.06)
    assert found["parsed"] == 0
    assert found["loaded"] == 0
    assert found["controls"] == ["radiotopic"] * 4 + ["rangeslider"]  # which browsers move by arrow keys
    assert found["back"] == "rgb(255, 255, 255)"


@in_browser
def test_the_page_is_dark_where_that_is_preferred_and_fits_a_phone(tmp_path):
    page = page_of(topics_of("esca"), tmp_path, corpus(), feature_names=WORDS, documents=TITLES)
    dark = shown_in(tmp_path, page + REPORT, "--blink-settings=preferredColorScheme=0")
    assert max(map(int, re.findall(r"\d+", dark["back"]))) < 60
    assert dark["first"]["intervals"] == 0
    frame = f"""<iframe width=400 height=800 srcdoc="{html.escape(page)}" onload="
        const found = this.contentDocument.documentElement;
        document.body.dataset.report = JSON.stringify([found.scrollWidth, found.clientWidth]);"></iframe>"""
    full, seen = shown_in(tmp_path, "<!DOCTYPE html><body>" + frame)
    assert full <= seen <= 400


def test_words_cannot_leave_the_data_of_the_page(tmp_path):
    page = page_of(topics_of(), tmp_path, corpus(), feature_names=WORDS, documents=TITLES, n_words=60)
    assert page.count("</script>") == 2
    assert "bold</b>" not in page
    assert not re.search(r"https?:|src=|href=", page)
    assert "default-src 'none'" in page
    data = data_of(page)
    assert data["words"] == WORDS
    assert sorted(data["topics"][0]["words"]) == list(range(60))


def test_intervals_are_those_of_the_draws_and_of_the_level_that_they_reach(tmp_path):
    model = topics_of()
    topic = data_of(page_of(model, tmp_path, level=0.5, n_words=60))["topics"][0]
    k = topic["number"]
    expected = model.credible_intervals(0.5)
    np.testing.assert_allclose(topic["interval"], expected[:, k, topic["words"]], rtol=1e-4)
    weights = model.posterior_["topic_weights"][model.best_chain_]
    of_shares = equal_tailed_intervals(weights[:, np.newaxis], 0.5)[:, 0, k]
    np.testing.assert_allclose(topic["share_interval"], of_shares, rtol=1e-4)
    few = StochasticLDA(2, sampler="gibbs", max_iter=10, burn_in=1, thin=1, random_state=0).fit(corpus())
    with pytest.warns(UserWarning, match="Intervals from 9 draws have level 80%"):
        assert data_of(page_of(few, tmp_path))["level"] == "80%"


def test_without_documents_or_draws_these_parts_are_empty(tmp_path):
    data = data_of(page_of(topics_of("esca"), tmp_path))
    assert all(topic["documents"] == [] for topic in data["topics"])
    assert all(topic["interval"] is topic["share_interval"] is None for topic in data["topics"])
    assert set(data["words"]) <= {f"x{v}" for v in range(60)}


def test_documents_without_tokens_are_left_out_and_long_texts_are_cut(tmp_path):
    X = sp.vstack([np.zeros((1, 60)), corpus()[:3]], format="csr")
    topics = data_of(page_of(topics_of(), tmp_path, X, documents=["x" * 400] * 4))["topics"]
    for topic in topics:
        assert [(name, n_tokens) for name, _, n_tokens, _ in topic["documents"]] == [
            ("x" * 300 + "...", X.sum(axis=1)[row])
            for row in 1 + np.argsort(-topics_of().transform(X[1:])[:, topic["number"]], kind="stable")
        ]
    assert topics[0]["documents"][0][3] != topics[1]["documents"][0][3]


@pytest.mark.parametrize(
    "model",
    [
        HDPAdmixture(max_iter=20, random_state=0),
        ExponentialFamilyAdmixture(3, emission="poisson", max_iter=10, random_state=0),
        StochasticLDA(3, seed_words={"a name": [2, 3]}, max_iter=10, random_state=0),
    ],
    ids=["hdp", "poisson", "seeds"],
)
@pytest.mark.filterwarnings("ignore:Intervals")
def test_other_models_have_a_page_too(model, tmp_path):
    data = data_of(page_of(model.fit(corpus()), tmp_path, corpus(), n_documents=2))
    shares = [topic["share"] for topic in data["topics"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=1e-3)
    assert all(len(topic["documents"]) == 2 for topic in data["topics"])
    assert [topic["number"] for topic in data["topics"]] == model.topics_as_frame()["topic"].tolist()
    assert ("a name" in {topic["name"] for topic in data["topics"]}) == hasattr(model, "seed_words")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"feature_names": WORDS[1:]}, r"^feature_names has 59 names for 60 features\.$"),
        ({"documents": TITLES}, r"^documents belong to the rows of X: pass X too\.$"),
        ({"X": np.ones((2, 60)), "documents": TITLES}, r"^documents has 60 entries for 2 rows of X\.$"),
        ({"n_words": 0}, "n_words == 0, must be >= 1"),
        ({"n_documents": -1}, "n_documents == -1, must be >= 0"),
        ({"level": 1.0}, "level must be between 0 and 1"),
    ],
)
def test_wrong_arguments_are_refused_and_the_old_file_stays(options, error, tmp_path):
    path = tmp_path / "topics.html"
    path.write_text("old")
    with pytest.raises(ValueError, match=error):
        topics_of().to_html(path, **options)
    assert [file.name for file in tmp_path.iterdir()] == ["topics.html"]
    assert path.read_text() == "old"
