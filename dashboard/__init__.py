"""The page: a Streamlit app over the same functions as the command line."""
