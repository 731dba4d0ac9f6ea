"""Find the node, rail or link that is slow, by rounds of pairs; torch is needed to measure, not to judge."""
