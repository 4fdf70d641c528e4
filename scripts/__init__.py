"""Programs for maintainers; none of them is part of the installed package."""
