"""Clusters of the R package mclust, whose program is `Rscript`."""

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
