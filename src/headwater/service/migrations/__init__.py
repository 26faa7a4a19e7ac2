"""How the database came to be what ``tables`` says it is, a step a file."""
