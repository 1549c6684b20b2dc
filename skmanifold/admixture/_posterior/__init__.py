"""Methods of fitted topic models: inference for documents, posterior uncertainty of topics, export to pyLDAvis."""
