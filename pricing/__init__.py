"""What things cost: providers, collection runs, quality gate, egress, bundled snapshot."""
