"""How the gallery runs: the order of its pages, from first steps to samplers of one's own, and what scripts may ask."""

import builtins
from pathlib import Path

from sphinx_gallery.sorting import ExampleTitleSortKey

_FIRST = (
    "quickstart",
    "plot_news_topics",
    "plot_choosing_n_components",
    "plot_topic_uncertainty",
    "plot_streaming_topics",
    "plot_dask_cluster",
    "plot_early_stopping",
    "plot_grid_search_samplers",
    "plot_topics_with_signs",
    "plot_orthogonal_topics",
    "plot_wind_directions",
    "plot_kinds_of_visitors",
    "plot_votes_missing_cells",
    "plot_category_prior_search",
    "plot_grade_of_membership",
    "plot_line_through_plane",
    "plot_motion_segmentation",
    "plot_dimension_of_classes",
    "plot_em_and_stochastic_em",
)
_LAST = (
    "plot_stiefel_density",
    "plot_vmf_mixture",
    "plot_circle_noise",
    "plot_sparse_dirichlet",
    "plot_new_sampler",
    "plot_esca_and_ising",
)


class GalleryOrder(ExampleTitleSortKey):
    """Pages named above stand where they are named, all others between the two lists."""

    def __call__(self, filename: str) -> tuple[int, int, str]:
        name = filename.removesuffix(".py")
        if name in _FIRST:
            return 0, _FIRST.index(name), name
        if name in _LAST:
            return 2, _LAST.index(name), name
        return 1, 0, name


def give_file(gallery_conf: dict, script: str) -> None:
    """A script that saves a figure beside itself finds a ``__file__``, which the gallery does not have."""
    builtins.__file__ = str(Path(gallery_conf["src_dir"]) / "gallery" / Path(script).name)
