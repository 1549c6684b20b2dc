"""Running a sampler on a model: passes, chains, traces; and inference for new rows given what was learned."""
