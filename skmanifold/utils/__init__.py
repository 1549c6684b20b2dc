"""Small tools that every room uses: random streams, sparse counts, threads, scikit-learn's private corners."""
