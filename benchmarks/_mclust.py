"""Clusters and densities of the R package mclust, whose program is `Rscript`."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

# arguments: the folder of the columns, the largest number of components, and the seed of initial subsets of the rows
PROGRAM = """
suppressMessages(library(mclust))
given <- commandArgs(trailingOnly = TRUE)
X <- as.matrix(read.csv(file.path(given[1], "columns.csv"), header = FALSE))
set.seed(as.integer(given[3]))
first <- sum(proc.time()[1:2])
fit <- Mclust(X, G = 1:as.integer(given[2]), verbose = FALSE)
second <- sum(proc.time()[1:2])
merged <- fit$classification
if (fit$G > 1) merged <- clustCombiOptim(clustCombi(fit))$cluster.combi
third <- sum(proc.time()[1:2])
write.table(cbind(fit$classification, merged), file.path(given[1], "labels.csv"), row.names = FALSE, col.names = FALSE)
cat(second - first, third - second)
"""

# arguments: the folder of the rows and held-out rows, and the largest number of components
CHOICE = """
suppressMessages(library(mclust))
given <- commandArgs(trailingOnly = TRUE)
rows <- function(name) as.matrix(read.csv(file.path(given[1], name), header = FALSE))
X <- rows("rows.csv")
set.seed(1)
choice <- function(forms) {
  tryCatch(Mclust(X, G = 1:as.integer(given[2]), modelNames = forms, verbose = FALSE), error = function(e) NULL)
}
forms <- mclust.options("emModelNames")
first <- sum(proc.time()[1:2])
fit <- choice(forms)
if (is.null(fit)) {
  fits <- Filter(function(each) !is.null(each), lapply(forms, choice))
  fit <- fits[[which.max(sapply(fits, function(each) each$bic))]]
}
second <- sum(proc.time()[1:2])
densities <- dens(rows("held_out.csv"), modelName = fit$modelName, parameters = fit$parameters, logarithm = TRUE)
cat(fit$modelName, fit$G, format(c(mean(densities), fit$bic, second - first), digits = 9), fit$classification)
"""


def chosen(X, held_out, n_sizes):
    """What `Mclust` chooses by BIC among all forms and 1 to `n_sizes` components, and the labels of the rows.

    `Mclust` ends with an error if one of the forms does. Then each form has a call, and those with errors are left out.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("rows", X), ("held_out", held_out)):
            np.savetxt(Path(folder) / f"{name}.csv", rows, delimiter=",", fmt="%.17g")
        command = ["Rscript", "-e", CHOICE, folder, str(n_sizes)]
        form, *numbers = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    number, density, bic, seconds = map(float, numbers[:4])
    figures = {"form": form, "number": int(number), "density": density, "bic": -bic, "seconds": seconds}
    return figures, np.array(numbers[4:], dtype=int)


def mclust(columns, n_sizes, seed, seconds=None):
    """Labels and processor seconds of `Mclust` with defaults, and of `clustCombi` with the number at the elbow.

    They are None if R takes longer than `seconds`.
    """
    names = "mclust", "mclust, merged"
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder) / "columns.csv", columns, delimiter=",")
        command = ["Rscript", "-e", PROGRAM, folder, str(n_sizes), str(seed)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return dict.fromkeys(names, (None, None))
        labels = np.loadtxt(Path(folder) / "labels.csv", dtype=int, ndmin=2).T
    times = [float(text) for text in done.stdout.split()[-2:]]
    return dict(zip(names, zip(labels, times, strict=True), strict=True))
