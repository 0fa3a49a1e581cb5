"""Hook entries in the assistants' own settings files: put in, updated in place, taken out."""
