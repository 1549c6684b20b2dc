"""Tables whose columns have different emissions."""
