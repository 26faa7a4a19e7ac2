"""Results to figures to one HTML page. What a figure shows is computed apart from how it is drawn."""
