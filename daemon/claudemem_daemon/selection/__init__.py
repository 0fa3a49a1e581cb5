"""The per-project filtered query, the merge by created_at_epoch, the one limit."""
