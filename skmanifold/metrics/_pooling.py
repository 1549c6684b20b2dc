"""Rubin's rules: one estimate and its variance from the analyses of several imputed tables."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student_t

from ..utils._typing import ArrayLike
from ..utils._validation import check_array


class PooledEstimate(NamedTuple):
    """The estimates of several imputed tables, pooled by Rubin's rules.

    All are numbers, or arrays of shape (n_parameters,) if there are several parameters.

    Parameters
    ----------
    estimate : float or ndarray
        Mean of the estimates.
    variance : float or ndarray
        Total variance, ``within + (1 + 1 / m) * between``; its square root is the standard error.
    within : float or ndarray
        Mean of the variances.
    between : float or ndarray
        Variance of the estimates between the tables.
    degrees_of_freedom : float or ndarray
        Degrees of freedom of the Student t distribution of `interval`.
    fraction_missing : float or ndarray
        Estimated fraction of the information about the parameter that is missing, from 0 to 1.
    """

    estimate: Any
    variance: Any
    within: Any
    between: Any
    degrees_of_freedom: Any
    fraction_missing: Any

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Confidence interval of each parameter, from the Student t distribution.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level, between 0 and 1.

        Returns
        -------
        low : float or ndarray
            Lower end.
        high : float or ndarray
            Upper end. With 0 degrees of freedom the interval is the whole line.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.
        """
        if not (isinstance(level, Real) and 0.0 < level < 1.0):
            raise ValueError(f"level must be a number between 0 and 1; got {level!r}.")
        degrees = np.asarray(self.degrees_of_freedom)
        quantile = student_t.isf((1.0 - level) / 2.0, np.where(degrees > 0.0, degrees, 1.0))
        half = np.where(degrees > 0.0, quantile * np.sqrt(self.variance), np.inf)
        return _plain(self.estimate - half), _plain(self.estimate + half)


def pool_estimates(estimates: ArrayLike, variances: ArrayLike, dof_complete: float | None = None) -> PooledEstimate:
    r"""Pool the estimates of several imputed tables by Rubin's rules.

    Analyse each of m completed tables as if no cell had been missing, and pass the estimates :math:`\hat q_i` and their
    squared standard errors :math:`u_i`. The pooled estimate is the mean :math:`\bar q`, and its variance T adds the
    variance within the tables and the variance between them [1]_:

    .. math::
        W = \frac{1}{m} \sum_i u_i, \qquad
        B = \frac{1}{m - 1} \sum_i (\hat q_i - \bar q)^2, \qquad
        T = W + \Bigl(1 + \frac{1}{m}\Bigr) B.

    With :math:`\lambda = (1 + 1 / m) B / T`, the share of the variance that is due to missing cells,
    :math:`(\bar q - q) / \sqrt T` has about a Student t distribution with

    .. math:: \nu_m = (m - 1) / \lambda^2

    degrees of freedom. In small samples :math:`\nu_m` can exceed the degrees of freedom :math:`\nu_0` that the analysis
    of a complete table has. Given :math:`\nu_0`, they are therefore [2]_

    .. math::
        \nu = \Bigl(\frac{1}{\nu_m} + \frac{1}{\nu_\mathrm{obs}}\Bigr)^{-1}, \qquad
        \nu_\mathrm{obs} = (1 - \lambda) \, \nu_0 \, \frac{\nu_0 + 1}{\nu_0 + 3} .

    The fraction of missing information is that of [1]_, equation 3.1.10, with :math:`r = (1 + 1 / m) B / W`:

    .. math:: \frac{r + 2 / (\nu_m + 3)}{r + 1} .

    It uses :math:`\nu_m` also if `dof_complete` is given, so it is 0 if the estimates are equal.

    Parameters
    ----------
    estimates : array-like of shape (n_tables,) or (n_tables, n_parameters)
        Estimates of each completed table, at least two.
    variances : array-like of the same shape
        Squared standard errors of these estimates.
    dof_complete : float, default=None
        Degrees of freedom :math:`\nu_0` of the analysis of a complete table, such as n - 1 for a mean and
        n - p for a regression with p coefficients. None means that the sample is large.

    Returns
    -------
    PooledEstimate
        The estimate, its variance and the parts of the variance, the degrees of freedom, the fraction of missing
        information, and the method ``interval``.

    Raises
    ------
    ValueError
        If there are fewer than two tables, the shapes differ, a value is not finite, a variance is negative, or
        `dof_complete` is not positive.

    See Also
    --------
    skmanifold.ExponentialFamilyMixture.impute : Completed tables of a mixture.
    skmanifold.DPMixture.impute : Completed tables of a Dirichlet process mixture.

    Notes
    -----
    The intervals have their level only if the imputations are proper: each table has to use another posterior draw of
    the parameters, as ``impute(X, n_draws=m)`` does. Parameters should have a distribution close to normal, so
    transform others first, for example correlations by ``numpy.arctanh``.

    References
    ----------
    .. [1] D. B. Rubin, "Multiple Imputation for Nonresponse in Surveys", Wiley, 1987, section 3.1.
    .. [2] J. Barnard and D. B. Rubin, "Small-sample degrees of freedom with multiple imputation", Biometrika 86 (4),
       948-955, 1999.

    Examples
    --------
    >>> from skmanifold.metrics import pool_estimates
    >>> pooled = pool_estimates([1.0, 2.0, 3.0], [0.5, 0.7, 0.6])
    >>> print(f"{pooled.estimate:.2f} with variance {pooled.variance:.3f}")
    2.00 with variance 1.933
    >>> low, high = pooled.interval(0.9)
    >>> print(f"{low:.2f} to {high:.2f}")
    -0.92 to 4.92
    """
    q, u = _checked(estimates, variances)
    if dof_complete is not None and not (
        isinstance(dof_complete, Real) and not isinstance(dof_complete, bool) and dof_complete > 0
    ):
        raise ValueError(f"dof_complete must be a positive number or None; got {dof_complete!r}.")
    m = len(q)
    within, between = u.mean(axis=0), q.var(axis=0, ddof=1)
    extra = (1.0 + 1.0 / m) * between
    total = within + extra
    share = np.divide(extra, total, out=np.zeros_like(total), where=total > 0.0)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):  # without variance between the tables: infinity
        rubin = (m - 1) / share**2
        degrees = rubin
        if dof_complete is not None and dof_complete < np.inf:
            observed = (1.0 - share) * dof_complete * (dof_complete + 1.0) / (dof_complete + 3.0)
            degrees = 1.0 / (1.0 / rubin + 1.0 / observed)
    fraction = share + (1.0 - share) * 2.0 / (rubin + 3.0)
    return PooledEstimate(*map(_plain, (q.mean(axis=0), total, within, between, degrees, fraction)))


def _checked(estimates: ArrayLike, variances: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Both as float64 of the same shape, with a row for each table."""
    q, u = (
        check_array(np.atleast_1d(values), dtype=np.float64, ensure_2d=False, input_name=name)
        for values, name in ((estimates, "estimates"), (variances, "variances"))
    )
    if q.shape != u.shape:
        raise ValueError(f"estimates has the shape {q.shape}, but variances has the shape {u.shape}.")
    if len(q) < 2:
        raise ValueError("estimates has the results of 1 table, but Rubin's rules need at least 2.")
    if (u < 0.0).any():
        raise ValueError(f"variances must not be negative; got {u.min()}.")
    return q, u


def _plain(values: Any) -> Any:
    """A number instead of an array without dimensions."""
    return values if np.ndim(values) else float(values)
