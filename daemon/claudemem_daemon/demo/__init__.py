"""`claudemem-daemon demo`: the main job, real, in a temporary folder."""
