"""Fits that are cut short, and go on from their checkpoints."""

import numpy as np
import pytest

from skmanifold import HeldOutMonitor, StochasticLDA, distributed
from skmanifold.datasets import make_lda_corpus
from skmanifold.inference._chains import Chain

K = 4
X = make_lda_corpus(50, 30, K, mean_length=30, random_state=0).data


def lda(sampler="esca", **settings):
    return StochasticLDA(K, sampler=sampler, **{"max_iter": 10, "thin": 2, "random_state": 3, **settings})


def learned(fitted):
    arrays = [
        fitted.components_,
        fitted.log_density_trace_,
        fitted.topic_word_counts_.data,
        fitted.topic_word_counts_.indices,
    ]
    arrays += [fitted.posterior_[name] for name in fitted.posterior_]
    return [np.asarray(array).tobytes() for array in arrays]


def monitored(estimator, rows):
    """What a fit learned from the rows that a monitor did not hold out, and the scores of those that it did."""
    monitor = HeldOutMonitor(fraction=0.3, every=2)
    fitted = estimator.set_callbacks(monitor).fit(rows)
    return learned(fitted), [row["score"] for row in monitor.get_logs().data]


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def passes_of(monkeypatch, dies_in=None):
    """Numbers of the passes that chains make; the process ends in the middle of one."""
    passes, advance = [], Chain.advance

    def watched(chain, iteration, *arguments):
        passes.append(iteration)
        if iteration == dies_in:
            raise KeyboardInterrupt
        advance(chain, iteration, *arguments)

    monkeypatch.setattr(Chain, "advance", watched)
    return passes


def cut_short(estimator, data, client, folder, dies_in=8, every=3, **fit_params):
    """Interrupt a fit in a pass; that before the last checkpoint was the last multiple of `every`."""
    with pytest.MonkeyPatch.context() as patch, distributed(client, checkpoint_dir=folder, checkpoint_every=every):
        passes_of(patch, dies_in)
        with pytest.raises(KeyboardInterrupt):
            estimator.fit(data, **fit_params)


def resume(folder, data=X, client=None, **settings):
    with distributed(client, checkpoint_dir=folder, checkpoint_every=3):
        return lda(**{"n_chains": 2, **settings}).fit(data)
