"""One objective and the prepared runs -> one Check."""
