"""scikit-learn's checks: all of them for some estimators, and for others those that depend on the sampler."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

# What a sampler, an emission or a number of chains can break by itself
SOME = {
    "check_estimator_cloneable",
    "check_set_params",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_list",
    "check_sample_weights_shape",
}


def _name(check) -> str:
    return getattr(check, "func", check).__name__


def short_checks(whole, others, **options):
    """`parametrize_with_checks` for all estimators; of those of `others`, the short suite has `SOME` checks alone."""
    whole, others = list(whole), list(others)
    decorator = parametrize_with_checks([*whole, *others], **options)
    names, cases = decorator.args
    kept = []
    for case in cases:
        values = getattr(case, "values", case)
        is_short = any(values[0] is estimator for estimator in whole) or _name(values[1]) in SOME
        marks = [*getattr(case, "marks", ()), *([] if is_short else [pytest.mark.long])]
        kept.append(pytest.param(*values, marks=marks))
    return pytest.mark.parametrize(names, kept, **decorator.kwargs)
