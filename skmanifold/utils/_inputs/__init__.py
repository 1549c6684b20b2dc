"""What users pass as X: tables and arrays of other libraries, and the structure of sparse matrices."""
