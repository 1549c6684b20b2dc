"""Topics of directions: `SphericalAdmixture` and `OrthogonalSphericalAdmixture`."""

from __future__ import annotations

from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture
from skmanifold.samplers import GMC, GSGNHT, SGGMC

from . import _quantities as q
from ._settings import Setting

TITLE = "SphericalAdmixture and OrthogonalSphericalAdmixture"
QUANTITIES = {
    "cosines of the documents": q.alignment,
    "squared shares": q.squared_shares,
    "squared proportions": q.squared_counts,
    "mean topic": q.mean_topic,
}
OF_TOPICS = {"cosines of the topics": q.topic_cosines}
OF_TWO = {"log likelihood of the topics": q.evidence_of_two(10.0)}
OF_NUMBER = {"number of components": q.number("n_components")}
SHAPE = {"n_samples": 12, "n_features": 4}


def _spherical(name, title, sampler, batch_size=None, **others):
    estimator = SphericalAdmixture(
        2,
        sampler=sampler,
        document_concentration=10.0,
        topic_concentration=3.0,
        mean_concentration=3.0,
        mean_direction=[1.0, 0.0, 0.0, 0.0],
        n_doc_samples=1,
        n_stored_rows=12,
    )
    if batch_size is not None:
        estimator.set_params(batch_size=batch_size)
    quantities = {**QUANTITIES, **OF_TOPICS}
    return Setting(f"spherical_{name}", f"{title}, SphericalAdmixture", estimator, SHAPE, quantities, **others)


def _orthogonal(name, title, n_components, sampler="gibbs", batch_size=None, **others):
    estimator = OrthogonalSphericalAdmixture(
        n_components,
        sampler=sampler,
        document_concentration=10.0,
        doc_topic_prior=1.0,
        max_components=None if n_components else 3,
        n_doc_samples=1,
        n_stored_rows=12,
    )
    if batch_size is not None:
        estimator.set_params(batch_size=batch_size)
    quantities = {**QUANTITIES, **(OF_TWO if n_components else OF_NUMBER)}
    return Setting(
        f"orthogonal_{name}", f"{title}, OrthogonalSphericalAdmixture", estimator, SHAPE, quantities, **others
    )


SETTINGS = [
    _spherical("gmc_gibbs", "gmc_gibbs", "gmc_gibbs", thin=10),
    _orthogonal("gibbs", "gibbs, two topics", 2),
    _orthogonal("number", "gibbs, inferred number", None, thin=10),
]
for step in (0.1, 0.5):
    for batch_size in (3, 12):
        label = f"step size {step}, batch size {batch_size}"
        for sampler in (
            GSGNHT(step_size=step, friction=0.3, n_steps=1),
            SGGMC(step_size=step, friction=1.5, n_steps=1),
        ):
            name = sampler.short_name
            key = f"{name}_{step}_{batch_size}"
            SETTINGS.append(
                _spherical(key, f"{name}, {label}", sampler, batch_size, kind="approximate", burn_in=300, thin=50)
            )
for sampler in (GSGNHT(step_size=0.1, friction=0.3, n_steps=1), SGGMC(step_size=0.1, friction=1.5, n_steps=1)):
    name = sampler.short_name
    SETTINGS.append(
        _orthogonal(name, f"{name}, step size 0.1, batch size 12", 2, sampler, 12, kind="approximate", thin=50)
    )
SETTINGS += [
    _spherical("gmc", "gmc", GMC(step_size=0.1, n_steps=10), kind="approximate", thin=10),
    _spherical(
        "wrong",
        "gmc_gibbs, another document_concentration",
        "gmc_gibbs",
        kind="wrong",
        thin=10,
        fit={"document_concentration": 5.0},
    ),
    _orthogonal("wrong", "gibbs, another doc_topic_prior", 2, kind="wrong", fit={"doc_topic_prior": 0.3}),
]
