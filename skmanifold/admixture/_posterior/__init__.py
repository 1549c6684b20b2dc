"""What fitted topics give: inference for documents, uncertainty of topics, pyLDAvis."""
