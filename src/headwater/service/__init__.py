"""The decision service: live choices over HTTP, kept in a database, and pages that show what is going on."""
