"""How the gallery runs: the order of the pages within a section, and what scripts may ask."""

import builtins
from pathlib import Path

from sphinx_gallery.sorting import ExampleTitleSortKey

_ORDER = (
    "quickstart",
    "plot_news_topics",
    "plot_choosing_n_components",
    "plot_topic_uncertainty",
    "plot_embedding_topics",
    "plot_lda_samplers_by_pass",
    "plot_grid_search_samplers",
    "plot_streaming_topics",
    "plot_early_stopping",
    "plot_dask_cluster",
    "plot_texts_to_topics",
    "plot_image_directions",
    "plot_profiles",
    "plot_topics_with_signs",
    "plot_orthogonal_topics",
    "plot_wind_directions",
    "plot_visitor_clusters",
    "plot_votes_missing_cells",
    "plot_category_prior_search",
    "plot_number_and_form",
    "plot_number_of_species",
    "plot_mixed_table",
    "plot_grade_of_membership",
    "plot_em_and_stochastic_em",
    "plot_line_through_plane",
    "plot_motion_segmentation",
    "plot_dimension_of_classes",
    "plot_stiefel_density",
    "plot_vmf_mixture",
    "plot_circle_noise",
    "plot_sparse_dirichlet",
    "plot_new_sampler",
    "plot_esca_and_ising",
)


class GalleryOrder(ExampleTitleSortKey):
    """The pages of a section in the order above, new ones at the end."""

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removesuffix(".py")
        return (_ORDER.index(name) if name in _ORDER else len(_ORDER)), name


def give_file(gallery_conf: dict, script: str) -> None:
    """A script that saves a figure beside itself finds a ``__file__``, which the gallery does not have."""
    builtins.__file__ = str(Path(gallery_conf["src_dir"]) / "gallery" / Path(script).name)
