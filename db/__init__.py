"""Tables, migrations, and every SQL statement, behind functions that return plain data."""
