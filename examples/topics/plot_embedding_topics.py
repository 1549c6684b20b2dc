"""
Topics from embeddings
======================

A common way to topics clusters embeddings of the texts and describes each cluster by its words.
This example does so with a pipeline that ends with a Dirichlet process mixture. The number of
topics is inferred, each text has a topic, new texts are assigned by ``predict``, and the same seed
gives the same topics. At the end, the same mixture takes the place of HDBSCAN in BERTopic and
Turftopic.
"""

# %%
# Texts
# -----
# We simulate 1500 texts on six subjects, of which the largest has ten times as many texts as the
# smallest. Each text has 20 to 60 words: three fifths are common to all texts, one in ten is from
# a random subject, and the others are words of its own subject.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skmanifold import DPMixture
from skmanifold.inspection import TopicDisplay, class_words

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

words_of = {
    "astronomy": "star planet orbit moon telescope galaxy comet light sky mass",
    "cooking": "pan oven salt butter onion sauce boil flour taste spoon",
    "football": "goal match team ball coach league player season score referee",
    "gardening": "soil seed plant leaf root water prune bloom pot compost",
    "banking": "loan interest bank credit rate debt account payment branch mortgage",
    "railways": "train track station signal engine rail timetable platform driver tunnel",
}
common = [f"{first}{last}" for first in ("ka", "lo", "mi", "nu", "pe") for last in "bdfgklmnprst"]
subjects = np.array(list(words_of))
own_words = np.array([words_of[name].split() for name in subjects])
rng = np.random.default_rng(0)


def write_texts(n):
    subject = rng.choice(6, n, p=np.array([10, 6, 5, 4, 3, 1]) / 29)
    texts = []
    for k in subject:
        length = rng.integers(20, 60)
        source = rng.choice(3, length, p=[0.6, 0.1, 0.3])
        drawn = [rng.choice(common, length), rng.choice(own_words.ravel(), length)]
        drawn.append(rng.choice(own_words[k], length))
        texts.append(" ".join(np.choose(source, drawn)))
    return texts, subject


texts, subject = write_texts(1500)
new_texts, new_subject = write_texts(300)
print(texts[0])

# %%
# From texts to clusters
# ----------------------
# Embeddings are usually computed by a sentence encoder. Here they are made by tf-idf and a
# truncated singular value decomposition. Von Mises-Fisher components describe the directions of
# the embeddings.

to_vectors = make_pipeline(TfidfVectorizer(), TruncatedSVD(10, random_state=0), Normalizer())
topics = make_pipeline(to_vectors, DPMixture("von_mises_fisher", random_state=0))
labels = topics.fit_predict(texts)
mixture = topics[-1]
print(pd.crosstab(subjects[subject], labels, rownames=["subject"], colnames=["cluster"]))

# %%
# There is one cluster for each subject. The clusters are not exactly von Mises-Fisher
# distributed, so each consists of several components that overlap. With
# ``clusters="components"``, labels and probabilities are those of the components:

n_components = mixture.merge_components("components").n_components_
print(f"{n_components} components, {mixture.n_components_} clusters")

# %%
#
# Words of the clusters
# ---------------------
# `class_words` finds the words that are more frequent in a cluster than in the others, from
# counts of words in the texts. Bars are log odds ratios with 90% credible intervals.

counter = CountVectorizer()
counts = counter.fit_transform(texts)
found = class_words(labels, counts, counter.get_feature_names_out(), n_words=6)
_ = TopicDisplay.from_class_words(found)
plt.show()

# %%
# New texts
# ---------
# The pipeline assigns new texts to the clusters. `predict_proba` has the probability of each
# cluster, here for a text on one subject, and for one on two subjects.

agreement = adjusted_mutual_info_score(new_subject, topics.predict(new_texts))
print(f"adjusted mutual information with the subjects of new texts: {agreement:.2f}")
two = ["telescope, moon, comet and planet", "a loan for seed, a bank for soil, interest on compost"]
names = [" ".join(words[:2]) for words in found.words]
print(pd.DataFrame(topics.predict_proba(two).T.round(2), names, ["one subject", "two subjects"]))

# %%
# In a mixture each text belongs to one cluster, so that the probability of one of two subjects
# can be near one. Topic models such as `StochasticLDA` give proportions of topics.
#
# Compared with HDBSCAN
# ---------------------
# HDBSCAN, the clustering step of BERTopic, needs the smallest number of texts in a cluster, and
# leaves texts in regions of low density without a cluster. We compare it, with three of these
# numbers, with the mixture, with two seeds.

vectors = to_vectors.fit_transform(texts)
sizes = 5, 15, 50
methods = {f"HDBSCAN, at least {n} texts": HDBSCAN(min_cluster_size=n, copy=True) for n in sizes}
methods |= {f"DPMixture, seed {n}": DPMixture("von_mises_fisher", random_state=n) for n in (0, 1)}
rows = {}
for name, method in methods.items():
    own = method.fit_predict(vectors)
    rows[name] = {
        "clusters": own.max() + 1,
        "without a cluster": f"{np.mean(own < 0):.0%}",
        "agreement with subjects": round(adjusted_mutual_info_score(subject, own), 2),
        "equal to the pipeline's": np.array_equal(own, labels),
    }
print(pd.DataFrame(rows).T.to_string())

# %%
# On these texts both methods find the subjects. HDBSCAN leaves the more texts without a cluster
# the larger its number is. The mixture does not need this number, and every text has a cluster.
# With the same seed, the labels are those of the pipeline, bit by bit. With another seed, a few
# texts are in another cluster.
#
# In BERTopic and Turftopic
# -------------------------
# Both accept a clustering estimator. These lines use principal components, too, because UMAP
# gives different columns in each run unless it has a seed:
#
# .. code-block:: python
#
#     reduction, mixture = PCA(5, random_state=0), DPMixture(random_state=0)
#     model = BERTopic(umap_model=reduction, hdbscan_model=mixture)
#     model = ClusteringTopicModel(dimensionality_reduction=reduction, clustering=mixture)
#
# :doc:`/user_guide/coming_from` shows what changes. Clusters of real embeddings overlap more than
# those of these texts, so that the inferred number is larger than that of the subjects.
